"""Tests of which faults scripts/build-docs finds in documents."""
import importlib.machinery
import importlib.util
import pathlib
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOADER = importlib.machinery.SourceFileLoader("build_docs", str(ROOT / "scripts/build-docs"))
docs = importlib.util.module_from_spec(importlib.util.spec_from_loader("build_docs", LOADER))
LOADER.exec_module(docs)


def dead_links(pages):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in pages.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return list(docs.dead_links(pathlib.Path(folder)))


class Links(unittest.TestCase):
    def test_pages_files_and_headings_that_exist_are_found(self):
        self.assertEqual(dead_links({"index.html": '<a href="docs/a.html#part"></a><img src="a.png"/><a href="https://else/"></a>',
                                     "docs/a.html": '<h2 id="part"></h2><a href="#part"></a><a href="../index.html"></a>',
                                     "a.png": ""}), [])

    def test_a_page_that_does_not_exist_is_a_fault(self):
        self.assertEqual(dead_links({"index.html": '<a href="b.html"></a>'}), ["index.html: b.html does not exist"])

    def test_a_picture_that_does_not_exist_is_a_fault(self):
        self.assertEqual(dead_links({"docs/a.html": '<img src="a.png"/>'}), ["docs/a.html: a.png does not exist"])

    def test_a_heading_that_does_not_exist_is_a_fault(self):
        self.assertEqual(dead_links({"index.html": '<a href="a.html#other"></a>', "a.html": '<h2 id="part"></h2>'}),
                         ["index.html: a.html#other: no such heading"])


class Guides(unittest.TestCase):
    def test_code_in_an_item_of_a_list_stays_in_the_item(self):
        self.assertEqual(docs.for_mkdocs("1. Do:\n   ```sh\n   make\n   ```\n   Done.\n```\n   as it is\n```"),
                         "1. Do:\n\n        make\n\n    Done.\n```\n   as it is\n```")

    def test_the_installed_headers_are_files_of_the_tree(self):
        headers = docs.installed_headers()
        self.assertIn("client/cache_client.hpp", headers)
        self.assertEqual([name for name in headers if not (ROOT / name).is_file()], [])


@unittest.skipUnless(docs.shutil.which("doxygen"), "doxygen is not installed")
class Reference(unittest.TestCase):
    def warnings(self, text):
        with tempfile.TemporaryDirectory() as folder:
            header = pathlib.Path(folder) / "a.h"
            header.write_text("/** @file\n *  A header. */\n" + text)
            return docs.make_reference(pathlib.Path(folder) / "api", "C", [header], for_c=True)

    def test_a_header_whose_functions_have_comments_is_well(self):
        self.assertEqual(self.warnings("/** Does it. */\nPEERCACHE_API int do_it(int times);\n"), [])

    def test_a_function_without_a_comment_is_a_fault(self):
        self.assertIn("do_it", "".join(self.warnings("PEERCACHE_API int do_it(int times);\n")))

    def test_a_comment_that_names_no_parameter_of_the_function_is_a_fault(self):
        self.assertIn("often", "".join(self.warnings("/** Does it.\n *  @param often how often */\nint do_it(int times);\n")))


if __name__ == "__main__":
    unittest.main()
