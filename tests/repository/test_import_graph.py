"""Paths that the graph has to see or to ignore, each as a crate of a few lines."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import import_graph
from import_graph import cycles, edges_to_remove, families, report
from rust_modules import ROOT, Crate, Import, Module, edges, read_crate


def crate(files: dict[str, str]) -> Crate:
    """Read a crate whose files are given by name; `lib.rs` declares what it is given to declare."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for name, text in files.items():
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text(text, encoding="utf-8")
        return read_crate(base / "lib.rs", base)


def imports(files: dict[str, str]) -> set[tuple[str, str]]:
    """Return who imports whom, without what concerns the root."""
    name = "::".join
    found: set[tuple[Module, Module]] = set(edges(crate(files)))
    return {(name(one), name(other)) for one, other in found if one and other}


class Paths(unittest.TestCase):
    def test_use_and_paths_in_code_are_imports(self) -> None:
        root = "mod a; mod b; mod c;"
        found = imports({"lib.rs": root, "a.rs": "use crate::b::X;", "b.rs": "", "c.rs": ""})
        self.assertEqual(found, {("a", "b")})
        code = "fn f() -> crate::b::X { crate::c::Y::new() }"
        found = imports({"lib.rs": root, "a.rs": code, "b.rs": "", "c.rs": ""})
        self.assertEqual(found, {("a", "b"), ("a", "c")})

    def test_trees_aliases_and_self(self) -> None:
        root = "mod a; mod b; mod c; mod d;"
        text = "use crate::{b::{self as other, X}, c::{Y as Z}}; fn f() { super::d::g() }"
        found = imports({"lib.rs": root, "a.rs": text, "b.rs": "", "c.rs": "", "d.rs": ""})
        self.assertEqual(found, {("a", "b"), ("a", "c"), ("a", "d")})

    def test_a_name_leads_on_to_what_it_stands_for(self) -> None:
        files = {
            "lib.rs": "mod a; mod b;",
            "a.rs": "use crate::b; fn f() { b::inner::g() }",
            "b.rs": "pub mod inner;",
            "b/inner.rs": "pub fn g() {}",
        }
        self.assertEqual(imports(files), {("a", "b"), ("a", "b::inner")})

    def test_reexports_lead_to_where_a_thing_is_defined(self) -> None:
        files = {
            "lib.rs": "mod a; mod b; mod c; pub use b::X;",
            "a.rs": "use crate::X; use crate::c::Y;",
            "b.rs": "pub struct X;",
            "c.rs": "pub use crate::b::*;",
        }
        found = imports(files)
        self.assertTrue({("a", "b"), ("a", "c"), ("c", "b")} <= found, found)

    def test_a_glob_brings_in_what_the_parent_imports(self) -> None:
        files = {
            "lib.rs": "mod a; use a::X;",
            "a.rs": "mod one; mod two; use two::X; use two::Y;",
            "a/one.rs": "use super::*; fn f(_: X) {}",
            "a/two.rs": "pub struct X; pub struct Y;",
        }
        self.assertIn(("a::one", "a::two"), imports(files))
        files["a/one.rs"] = "use super::*; fn f() {}"
        self.assertNotIn(("a::one", "a::two"), imports(files))

    def test_inline_modules_and_named_files(self) -> None:
        files = {
            "lib.rs": 'mod a { pub mod deep { fn f() { crate::b::g() } } } #[path = "x.rs"] mod b;',
            "x.rs": "pub fn g() { super::a::deep::f() }",
        }
        self.assertEqual(imports(files), {("a::deep", "b"), ("b", "a::deep")})

    def test_comments_strings_and_tests_are_no_imports(self) -> None:
        text = """
            // use crate::b::X;
            /* crate::b */
            const A: &str = "crate::b::X"; const B: &str = r#"crate::b "quoted" ::X"#;
            const C: char = '"'; const D: char = '\\''; fn f<'a>(_: &'a str) {}
            #[cfg(test)] use crate::b::X;
            #[cfg(test)]
            #[allow(unused)]
            mod tests { use crate::b::X; }
            #[cfg(all(test, unix))] fn t(_: [u8; 3]) { crate::b::g() }
        """
        self.assertEqual(imports({"lib.rs": "mod a; mod b;", "a.rs": text, "b.rs": ""}), set())
        text = "#[cfg(not(test))] fn t() { crate::b::g() }"
        found = imports({"lib.rs": "mod a; mod b;", "a.rs": text, "b.rs": ""})
        self.assertEqual(found, {("a", "b")})

    def test_what_follows_a_test_is_seen(self) -> None:
        text = "#[cfg(test)] mod tests; #[cfg(test)] const N: u8 = 1; use crate::b::X;"
        found = imports({"lib.rs": "mod a; mod b;", "a.rs": text, "b.rs": ""})
        self.assertEqual(found, {("a", "b")})

    def test_a_macro_names_its_own_crate(self) -> None:
        text = "macro_rules! m { () => { $crate::b::g() } }"
        found = imports({"lib.rs": "mod a; mod b;", "a.rs": text, "b.rs": ""})
        self.assertEqual(found, {("a", "b")})

    def test_a_missing_file_is_an_error(self) -> None:
        with self.assertRaisesRegex(FileNotFoundError, "mod gone"):
            crate({"lib.rs": "mod gone;"})


class Cycles(unittest.TestCase):
    def test_children_and_parents_are_one_module(self) -> None:
        files = {
            "lib.rs": "mod a; pub struct Root;",
            "a.rs": "mod child; use child::X; use crate::Root; pub struct A;",
            "a/child.rs": "use super::A; pub struct X;",
        }
        self.assertEqual(families(edges(crate(files))), {})

    def test_a_cycle_through_children_is_one_of_the_parents(self) -> None:
        files = {
            "lib.rs": "mod a; mod b;",
            "a.rs": "mod child;",
            "a/child.rs": "use crate::b::X;",
            "b.rs": "use crate::a::Y; pub struct X;",
        }
        graph = families(edges(crate(files)))[()]
        self.assertEqual(cycles(graph), [["a", "b"]])

    def test_the_report_names_the_modules_and_the_lightest_edge(self) -> None:
        files = {
            "lib.rs": "mod a; mod b; mod c; mod d;",
            "a.rs": "use crate::b::{B, Other}; pub struct A;",
            "b.rs": "use crate::c::{C, More}; use crate::d::D;",
            "c.rs": "\nuse crate::a::A;",
            "d.rs": "",
        }
        graph = families(edges(crate(files)))[()]
        self.assertEqual(
            report("here", graph),
            [
                "here: 3 import each other: a, b, c",
                "  remove c -> a (1 imports):",
                "    c.rs:2: crate::a::A",
            ],
        )

    def test_no_edge_is_removed_that_closes_no_cycle(self) -> None:
        one = {Import("f", 1, "p")}
        two = one | {Import("f", 2, "p")}
        three = two | {Import("f", 3, "p")}
        # Two cycles through the heaviest edge and through lighter ones that only one of them has.
        graph = {"a": {"b": two}, "b": {"a": three, "c": one}, "c": {"a": three}}
        self.assertEqual(cycles(graph), [["a", "b", "c"]])
        self.assertEqual(edges_to_remove(graph, ["a", "b", "c"]), [("a", "b")])

    def test_separate_cycles_are_separate(self) -> None:
        one = {Import("f", 1, "p")}
        graph = {"a": {"b": one}, "b": {"a": one, "c": one}, "c": {"d": one}, "d": {"c": one}}
        self.assertEqual(cycles(graph), [["a", "b"], ["c", "d"]])


class Workspace(unittest.TestCase):
    def test_every_library_and_program_is_covered(self) -> None:
        packages = import_graph.metadata(ROOT)
        found = {root for _, root in import_graph.roots(packages)}
        crates = ROOT / "crates"
        for source in [*crates.glob("*/src/lib.rs"), ROOT / "src/lib.rs"]:
            self.assertIn(source, found)
        self.assertIn(ROOT / "cupti-sys/src/lib.rs", found)
        self.assertIn(ROOT / "launcher/src/main.rs", found)

    def test_a_cycle_ends_in_status_1(self) -> None:
        package: dict[str, object] = {
            "name": "loop",
            "manifest_path": str(ROOT / "Cargo.toml"),
            "dependencies": [{"name": "loop", "kind": "dev"}],
            "targets": [],
        }
        out = io.StringIO()
        with (
            mock.patch.object(import_graph, "metadata", return_value=[package]),
            mock.patch("sys.argv", ["import_graph.py"]),
            contextlib.redirect_stdout(out),
        ):
            self.assertEqual(import_graph.main(), 1)
        self.assertIn("crates: 1 import each other: loop", out.getvalue())
        self.assertIn("Cargo.toml:1: dev dependency", out.getvalue())


if __name__ == "__main__":
    unittest.main()
