"""The notebooks of the book are tests: see authoring/nbval_compare.py."""

import book

pytest_plugins = ["authoring.nbval_compare"]
book.forget_settings()


def pytest_addoption(parser):
    parser.addoption(
        "--device",
        default="cpu",
        help="where the tests of the library make tensors: cpu, cuda (without CuPy: a stand-in)",
    )
