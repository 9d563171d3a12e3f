// Renders forms with react-jsonschema-form as it comes: reads [{schema, configs}], says [{html, faults}], faults by configuration.

const { readFileSync } = require("node:fs");
const { createElement } = require("react");
const { renderToStaticMarkup } = require("react-dom/server");
const Form = require("@rjsf/core").default;
const validator = require("@rjsf/validator-ajv8").default;

const asked = JSON.parse(readFileSync(0, "utf8"));
const rendered = asked.map(({ schema, configs }) => ({
  html: renderToStaticMarkup(createElement(Form, { schema, validator })),
  faults: configs.map((config) => validator.validateFormData(config, schema).errors.map((each) => each.property)),
}));
process.stdout.write(JSON.stringify(rendered));
