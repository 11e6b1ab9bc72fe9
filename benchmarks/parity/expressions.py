"""Write what PyTorch makes of each expression to tests/library/like_pytorch.json and layouts.json.

Run by hand after a change of like_pytorch.txt or layouts.txt there, with the requirements of this
folder installed: ``python benchmarks/parity/expressions.py``.
"""

import importlib.util
import json
import pathlib
import warnings

import torch

SOURCE = pathlib.Path(__file__).parents[2] / "tests" / "library" / "expressions.py"


def main():
    spec = importlib.util.spec_from_file_location("expressions", SOURCE)
    expressions = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(expressions)
    warnings.simplefilter("ignore")
    for file, evaluate in (
        ("like_pytorch", expressions.evaluate),
        ("layouts", expressions.strides),
    ):
        lines = []
        for expression in expressions.listed(f"{file}.txt"):
            outcome = json.dumps(evaluate(torch, expression))
            lines.append(f"{json.dumps(expression)}: {outcome}")
        target = SOURCE.with_name(f"{file}.json")
        target.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        print(f"{len(lines)} expressions in {file}.txt, by PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
