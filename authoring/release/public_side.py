"""The public side of a function that has a flag ``hidden``: its branches for hidden checks go."""

import ast


def public_side(function: ast.FunctionDef) -> ast.FunctionDef:
    """The function with ``hidden`` taken for False, and without what then is never used."""
    unhidden = _TakenForFalse()
    function.body = [unhidden.visit(statement) for statement in function.body]
    function = _Chosen().visit(function)
    while unused := _unused(function):
        function = _Without(unused).visit(function)
    return ast.fix_missing_locations(function)


def public_half(statement: ast.stmt) -> ast.stmt:
    """Of a dict with one entry for public and one for hidden checks, the first."""
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Dict) and all(isinstance(key, ast.Constant) for key in value.keys):
        if [key.value for key in value.keys] == [False, True]:
            value.keys, value.values = value.keys[:1], value.values[:1]
    return statement


def _unused(function: ast.FunctionDef) -> list[ast.Assign]:
    """Assignments to local names that nothing reads, where to drop them changes nothing else."""
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    return [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and all(isinstance(target, ast.Name) and target.id not in read for target in node.targets)
        and not _calls(node.value)
    ]


def _calls(node: ast.AST) -> bool:
    """Whether something is called, which may draw numbers."""
    return any(isinstance(inner, ast.Call) for inner in ast.walk(node))


def _decided(value: bool) -> ast.Constant:
    return ast.Constant(value, kind="hidden")


def _is_decided(node: ast.expr) -> bool:
    """Whether it is a constant that stands where `hidden` stood."""
    return isinstance(node, ast.Constant) and node.kind == "hidden"


def _is_nothing(node: ast.expr) -> bool:
    if isinstance(node, (ast.List, ast.Tuple)):
        return not node.elts
    return _is_decided(node) and not node.value


class _TakenForFalse(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node if _is_parameter(node) else self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node if _is_parameter(node) else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id != "hidden":
            return node
        if not isinstance(node.ctx, ast.Load):
            raise ValueError(f"line {node.lineno} gives `hidden` another value")
        return ast.copy_location(_decided(False), node)


def _is_parameter(function: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether `hidden` means something else in a function inside."""
    return "hidden" in [argument.arg for argument in function.args.args]


class _Chosen(ast.NodeTransformer):
    """Each choice by a constant is made."""

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        if not _is_decided(node.test):
            return node
        return node.body if node.test.value else node.orelse

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if not _is_decided(node.test):
            return node
        return node.body if node.test.value else node.orelse

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and _is_decided(node.operand):
            return ast.copy_location(_decided(not node.operand.value), node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        decides = isinstance(node.op, ast.Or)  # the value that settles it
        left = []
        for value in node.values:
            if _is_decided(value):
                if value.value is decides:
                    return value
            else:
                left.append(value)
        if len(left) > 1:
            node.values = left
            return node
        return left[0] if left else _decided(not decides)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Nothing is taken so often as `hidden` says, or added."""
        self.generic_visit(node)
        left, right = node.left, node.right
        if isinstance(node.op, ast.Mult) and (_is_decided(left) or _is_decided(right)):
            taken = left if _is_decided(right) else right
            if not _calls(taken):
                empty = isinstance(taken, (ast.List, ast.Tuple))
                return type(taken)([], ast.Load()) if empty else _decided(False)
        if isinstance(node.op, ast.Add) and _is_nothing(right):
            return left
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AugAssign | None:
        self.generic_visit(node)
        return None if isinstance(node.op, ast.Add) and _is_nothing(node.value) else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if ast.unparse(node.func) == "int" and node.args and _is_decided(node.args[0]):
            return ast.copy_location(ast.Constant(0), node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if not _is_decided(node.slice):
            return node
        if isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value is node.slice.value:
                    return value
        if isinstance(node.value, (ast.Tuple, ast.List)):
            return node.value.elts[node.slice.value]
        return node


class _Without(ast.NodeTransformer):
    def __init__(self, statements: list[ast.Assign]):
        self.statements = statements

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | None:
        return None if node in self.statements else node
