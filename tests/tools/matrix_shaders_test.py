#!/usr/bin/env python3
"""Changes sources of kept shaders in a small tree: matrix_shaders.py --check must name the shaders that they are of."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import matrix_shaders  # noqa: E402

FILES = {"numerics.glsl": "float one();\n",
         "common.glsl": '#include "numerics.glsl"\n',
         "matrix/tile.glsl": '#include "common.glsl"\n#include "numerics.glsl"\n',
         "matrix/a.comp": '#version 450\n#include "tile.glsl"\n', "matrix/a.spv": "a",
         "matrix/b.comp": "#version 450\n", "matrix/b.spv": "b"}


class MatrixShaders(unittest.TestCase):
    def stale_after(self, change):
        """What is said after a change of the files that were noted; None removes one."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            shaders = root / matrix_shaders.SHADERS
            (shaders / "matrix").mkdir(parents=True)
            for name, text in FILES.items():
                (shaders / name).write_text(text)
            noted = "".join(f"{name} {digest}\n" for name, digest in matrix_shaders.sources(root).items())
            (shaders / "matrix" / matrix_shaders.NOTES).write_text(noted)
            for name, text in change.items():
                (shaders / name).unlink() if text is None else (shaders / name).write_text(text)
            return matrix_shaders.check(root)

    def assert_stale(self, change, words):
        found = self.stale_after(change)
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_what_was_noted_is_fresh(self):
        self.assertEqual(self.stale_after({}), [])

    def test_a_change_of_an_included_file_names_who_includes_it_and_what_to_run(self):
        self.assert_stale({"numerics.glsl": "float two();\n"}, ["matrix/a.spv", "stale", "tools/matrix_shaders.py"])

    def test_a_change_of_a_shader_names_it(self):
        self.assert_stale({"matrix/b.comp": "#version 460\n"}, ["matrix/b.spv", "stale"])

    def test_a_new_shader_is_not_compiled(self):
        self.assert_stale({"matrix/c.comp": "#version 450\n"}, ["matrix/c.spv", "not there"])

    def test_a_shader_that_lost_its_source_or_its_code_is_found(self):
        self.assert_stale({"matrix/b.comp": None}, ["matrix/b.spv", "no b.comp"])
        self.assert_stale({"matrix/b.spv": None}, ["matrix/b.spv", "not there"])

    def test_an_included_file_that_is_gone_is_named(self):
        self.assert_stale({"numerics.glsl": None}, ["common.glsl includes numerics.glsl"])

    def test_no_notes_are_no_proof(self):
        self.assertEqual(len(self.stale_after({"matrix/sources.txt": None})), 2)


if __name__ == "__main__":
    unittest.main()
