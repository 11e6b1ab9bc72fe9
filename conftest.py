"""The notebooks of the book are tests: see authoring/nbval_compare.py."""

import book

pytest_plugins = ["authoring.nbval_compare", "tests.session"]
book.forget_settings()


def pytest_addoption(parser):
    parser.addoption(
        "--device",
        help="where alone the tests of the library make tensors: cpu, or cuda (without CuPy: a "
        "stand-in); unless named, both",
    )
