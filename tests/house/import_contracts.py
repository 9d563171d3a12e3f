"""Import contracts that import-linter itself lacks; `pyproject.toml` names them."""

import sys

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.application.contract_utils import AlertLevel, remove_ignored_imports_and_report


class StandardLibraryOnly(Contract):
    """Holds when the modules of `package` import nothing but each other and the standard library."""

    type_name = "standard_library_only"

    package = fields.StringField()
    ignore_imports = fields.SetField(subfield=fields.ImportExpressionField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        remove_ignored_imports_and_report(
            graph=graph, ignore_imports=self.ignore_imports, unmatched_alerting=AlertLevel.ERROR
        )
        modules = {self.package, *graph.find_descendants(self.package)}
        refused = sorted(
            (module, imported)
            for module in modules
            for imported in graph.find_modules_directly_imported_by(module)
            if imported not in modules and imported.partition(".")[0] not in sys.stdlib_module_names
        )
        return ContractCheck(kept=not refused, metadata={"refused": refused})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for module, imported in check.metadata["refused"]:
            output.print_error(f"{module} is not allowed to import {imported}")
