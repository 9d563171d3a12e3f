// Renders forms with react-jsonschema-form as it comes: reads [{schema, configs, opened}], says [{html, faults, chosen}],
// faults by configuration, and the titles of the alternatives that are chosen when the configurations in opened are.

const { readFileSync } = require("node:fs");
const { createElement } = require("react");
const { renderToStaticMarkup } = require("react-dom/server");
const Form = require("@rjsf/core").default;
const validator = require("@rjsf/validator-ajv8").default;

const asked = JSON.parse(readFileSync(0, "utf8"));
const SELECTED = /<option[^>]* selected=""[^>]*>([^<]*)</;
const rendered = asked.map(({ schema, configs, opened }) => ({
  html: renderToStaticMarkup(createElement(Form, { schema, validator })),
  faults: configs.map((config) => validator.validateFormData(config, schema).errors.map((each) => each.property)),
  chosen: opened.map((formData) => SELECTED.exec(renderToStaticMarkup(createElement(Form, { schema, validator, formData })))[1]),
}));
process.stdout.write(JSON.stringify(rendered));
