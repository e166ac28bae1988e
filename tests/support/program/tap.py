"""tap.py - unittest cases as TAP lines, which scripts/check/test-report counts.

    if __name__ == "__main__":
        tap.main()
"""

import unittest


class Result(unittest.TextTestResult):
    """One line per case."""

    def report(self, word, test):
        print(f"{word} - {test.id().split('.')[-1]}", flush=True)

    def addSuccess(self, test):  # noqa: N802
        super().addSuccess(test)
        self.report("ok", test)

    def addFailure(self, test, err):  # noqa: N802
        super().addFailure(test, err)
        self.report("not ok", test)

    def addError(self, test, err):  # noqa: N802
        super().addError(test, err)
        self.report("not ok", test)


def main():
    unittest.main(module="__main__",
                  testRunner=unittest.TextTestRunner(resultclass=Result, verbosity=0))
