"""Tests of docs/faults.md: the page must have each fault that a test stages, and each test and id that it names must
exist."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAULTS = 35
COMMANDS = {"doctor", "interface_v1", "key explain", "status", "undrain", "why"}


def rows():
    for line in (ROOT / "docs/faults.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and cells[0].isdigit():
            yield cells


def sources():
    files = [*ROOT.glob("tests/**/*.cpp"), *ROOT.glob("tests/python/*.py")]
    return "\n".join(file.read_text() for file in files)


def tests_in(text):
    """Returns the names in `text` of tests, of rows of tables of tests, and of misconfigurations
    (tests/python/test_why.py)."""
    return set(re.findall(r"^TEST(?:_F|_P)?\(\w+, (\w+)\)|^ *{\"([a-z_0-9]+)\",|^def (\w+)\(", text, re.MULTILINE))


class Faults(unittest.TestCase):
    def test_all_are_there_in_order(self):
        self.assertEqual([row[0] for row in rows()], [str(number) for number in range(1, FAULTS + 1)])

    def test_each_has_a_test_that_exists(self):
        known = {name for names in tests_in(sources()) for name in names}
        for row in rows():
            names = re.findall(r"`([a-z0-9_]+)`", row[3])
            self.assertTrue(names, row)
            for name in names:
                self.assertIn(name, known, row[0])

    def test_ids_are_those_of_status_and_doctor(self):
        known = set(re.findall(r'name [a-z_]+ = "([a-z-]+)"', (ROOT / "common/fault_ids.hpp").read_text()
                               + (ROOT / "cli/doctor/check_ids.hpp").read_text()))
        self.assertGreater(len(known), 50)
        for row in rows():
            for name in re.findall(r"`([a-z_0-9 -]+)`", row[2]):
                self.assertIn(name, known | COMMANDS)


if __name__ == "__main__":
    unittest.main()
