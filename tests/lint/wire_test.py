"""Tests that scripts/check_wire.py finds a format that changed without its version, and a version that changed without
its format."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_wire  # noqa: E402
from check_wire import Format  # noqa: E402

VERSION = """#pragma once
namespace peercache::rdma {
/// Any change is another `line_version`.
inline constexpr int line_version = 3;
struct line {
  int magic = 7; ///< Says "line".
};
} // namespace peercache::rdma
"""
BODY = """#include <string>
int helper() { return 1; }
std::string encode(int line) {
  return "a b" + std::to_string(line);
}
"""
DOCUMENT = "# Upgrades\n\n" + check_wire.BEGIN + "\n" + check_wire.END + "\n\nMore.\n"
FORMATS = [Format("line_version", "rdma/line.hpp", "lines", "nobody", ["rdma/line.hpp", "rdma/line.cpp#encode"])]


class tree:
    """A temporary source tree with one format and up-to-date digests."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for path, text in {"rdma/line.hpp": VERSION, "rdma/line.cpp": BODY, "docs/upgrades.md": DOCUMENT,
                           "scripts/none": ""}.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        assert self.update() == []

    def change(self, path, old, new):
        text = (self.root / path).read_text()
        assert old in text, old
        (self.root / path).write_text(text.replace(old, new))

    def raise_version(self):
        self.change("rdma/line.hpp", "line_version = 3", "line_version = 4")

    def faults(self):
        return list(check_wire.faults(self.root, FORMATS))

    def update(self, same_version=False):
        return check_wire.update(self.root, same_version, FORMATS)


class wire(unittest.TestCase):
    def setUp(self):
        self.tree = tree()
        self.addCleanup(self.tree.folder.cleanup)

    def expect(self, sentence):
        found = self.tree.faults()
        self.assertTrue(any(sentence in fault for fault in found), found)

    def test_nothing_changed_is_clean(self):
        self.assertEqual(self.tree.faults(), [])

    def test_a_field_more_under_the_same_version_says_what_to_do(self):
        self.tree.change("rdma/line.hpp", "int magic", "int more; int magic")
        self.expect("rdma/line.hpp changed and line_version is still 3: raise it in rdma/line.hpp, then run")

    def test_a_literal_counts(self):
        self.tree.change("rdma/line.cpp", '"a b"', '"ab"')
        self.expect("rdma/line.cpp#encode changed and line_version is still 3")

    def test_comments_includes_and_white_space_do_not_count(self):
        self.tree.change("rdma/line.hpp", '///< Says "line".', "// Something else.")
        self.tree.change("rdma/line.hpp", "  int magic = 7;", "\n\n    int  magic\n  = 7;")
        self.tree.change("rdma/line.cpp", "#include <string>", "#include <map>\n#include <string>")
        self.assertEqual(self.tree.faults(), [])

    def test_what_stands_beside_a_named_part_does_not_count(self):
        self.tree.change("rdma/line.cpp", "return 1", "return 2")
        self.assertEqual(self.tree.faults(), [])

    def test_a_version_that_was_raised_wants_its_digest(self):
        self.tree.raise_version()
        self.tree.change("rdma/line.hpp", "magic = 7", "magic = 8")
        self.expect("line_version is 4, and scripts/wire_digests.txt has not heard of it")
        self.assertEqual(self.tree.update(), [])
        self.assertEqual(self.tree.faults(), [])

    def test_a_version_that_was_raised_for_nothing(self):
        self.tree.raise_version()
        self.expect("line_version went from 3 to 4 and nothing that it covers changed")
        self.assertIn("nothing that it covers changed", self.tree.update(same_version=True)[0])

    def test_an_update_does_not_hide_a_version_that_was_forgotten(self):
        self.tree.change("rdma/line.hpp", "magic = 7", "magic = 8")
        self.assertIn("line_version is still 3", self.tree.update()[0])
        self.expect("line_version is still 3")
        self.assertEqual(self.tree.update(same_version=True), [])
        self.assertEqual(self.tree.faults(), [])

    def test_the_table_is_written_between_its_marks(self):
        text = (self.tree.root / "docs/upgrades.md").read_text()
        self.assertIn("| `line_version` | 3 | `rdma/line.hpp` | lines | nobody |", text)
        self.assertTrue(text.startswith("# Upgrades\n") and text.endswith("\n\nMore.\n"), text)

    def test_an_old_table_is_a_fault(self):
        self.tree.change("docs/upgrades.md", "| 3 |", "| 2 |")
        self.expect("its table is not what the code says")

    def test_a_header_that_does_not_name_its_version(self):
        self.tree.change("rdma/line.hpp", "line_version = 3", "line_number = 3")
        self.tree.change("rdma/line.hpp", "`line_version`", "version")
        self.expect("there is no constant line_version")
        named = tree()
        self.addCleanup(named.folder.cleanup)
        named.change("rdma/line.cpp", "helper", "helper")
        (named.root / "rdma/other.hpp").write_text("struct other {};\n")
        formats = [Format("line_version", "rdma/line.hpp", "lines", "nobody", ["rdma/other.hpp"])]
        found = list(check_wire.faults(named.root, formats))
        self.assertTrue(any("rdma/other.hpp:1: its bytes are line_version's, and it does not say so" in fault
                            for fault in found), found)

    def test_a_part_that_is_no_longer_there(self):
        self.tree.change("rdma/line.cpp", "encode(", "encoded(")
        self.expect("there is no encode")

    def test_a_version_that_nobody_listed(self):
        self.tree.change("rdma/line.cpp", "int helper", "constexpr int dot_version = 1;\nint helper")
        self.expect("dot_version is a version that scripts/check_wire.py does not list")


class the_list_of_formats(unittest.TestCase):
    def test_covers_every_protocol_header_that_travels(self):
        words = [word for form in check_wire.FORMATS for word, _, _ in check_wire.expanded(ROOT, form)]
        for file in (ROOT / "link/protocol").glob("*.hpp"):
            path = file.relative_to(ROOT).as_posix()
            self.assertEqual(path in words, path not in check_wire.INSIDE_ONE_PROCESS, path)

    def test_notices_each_field_of_the_pools_and_the_disks_structs(self):
        """The listed change of one field of each struct must change the digest."""
        for path, name, old, new in [
                ("storage/host_index.hpp", "bucket", "cells;", "cells; int more;"),
                ("storage/epoch_table.hpp", "epoch_block", "reserved[12]", "reserved[11]"),
                ("storage/disk/record.hpp", "record_header", "std::uint32_t more = 0;", "std::uint64_t more = 0;"),
                ("storage/disk/bucket/bucket_format.hpp", "bucket_trailer", "version = 1;", "version = 2;"),
                ("discovery/view.hpp", "member", "rails = 0;", "rails = 0; int more;"),
                ("net/frame_channel.hpp", "frames", "0x314c4350", "0x314c4351")]:
            text = (ROOT / path).read_text()
            self.assertIn(old, text, path)
            self.assertNotEqual(check_wire.digest_of(text, "none", name),
                                check_wire.digest_of(text.replace(old, new), "none", name), path)


if __name__ == "__main__":
    unittest.main()
