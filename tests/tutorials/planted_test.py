#!/usr/bin/env python3
"""Plants mistakes in tutorials: tutorial_test.py must find each of them, and follow a good one to its end."""
import pathlib
import sys
import tempfile
import textwrap
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import tutorial_test  # noqa: E402

# In the place of helix: three commands, of which one goes on until it is ended.
PROGRAM = """\
#!/bin/sh
case "$1 $2" in
"plan --help") echo "  --budget TEXT   the longest" ;;
"plan "*) echo "name     layers   memory"; echo "old-0    27-53    13 GB/24 GB   710  100%"; echo "max flow 710 tokens/s" ;;
"serve "*) echo "serving at $2"; trap 'exit 0' TERM; echo $$ > pid; while :; do sleep 0.01; done ;;
*) echo "helix: no command $1" >&2; exit 2 ;;
esac
"""
GOOD = """
    # Planning

    Write `office.toml`, and plan with it; `helix plan --budget 60s` plans for longer.

    ```toml
    name = "office"
    ```

    Then:

    ```sh
    test "$(cat office.toml)" = 'name = "office"'
    export WHERE=here
    helix plan office.toml
    ```

    ```text
    ...
    old-0    0-9    1.5 MB/3 TB   5  7%
    max flow 9 tokens/s
    ```

    Leave it running:

    ```sh
    helix serve $WHERE
    ```

    ```text
    serving at here
    ```

    In a new terminal:

    ```sh
    kill $(cat pid)
    ```
    """


class Tutorial(unittest.TestCase):
    def setUp(self):
        tutorial_test.COMMAND_LIMIT_S = 8  # on a machine that does much else, too

    def follow(self, text):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            program, model, tutorial = folder / "program", folder / "model", folder / "tutorial.md"
            program.write_text(PROGRAM)
            program.chmod(0o755)
            model.write_text("a model")
            tutorial.write_text(textwrap.dedent(text))
            tutorial_test.check_mentioned(program, tutorial.read_text())
            reader = tutorial_test.Reader(program, tutorial, model, folder, False)
            try:
                return reader.follow()
            finally:
                reader.stop()

    def assert_found(self, text, words):
        with self.assertRaises(tutorial_test.TutorialError) as found:
            self.follow(text)
        self.assertIn(words, str(found.exception))

    def commands(self, commands, shown=None, before="Then:"):
        text = f"{before}\n\n```sh\n{commands}\n```\n"
        return text if shown is None else text + f"\n```text\n{shown}\n```\n"

    def test_a_good_one_is_followed_to_its_end(self):
        self.assertEqual(self.follow(GOOD), 6)

    def test_a_command_that_fails(self):
        self.assert_found(self.commands("helix paln"), "ends with 2")
        self.assert_found(self.commands("false\nhelix plan x"), "ends with 1")
        self.assert_found(self.commands("helix paln | cat"), "ends with 2")

    def test_a_line_that_is_not_shown(self):
        for line in ("old-0    27-53    13 GB/24 GB   710", "old     27-53   13 GB/24 GB   710   100%", "max flow 710 tokens",
                     "... flow 710 requests/s", "name     layers   memory\nname     layers   memory"):
            self.assert_found(self.commands("helix plan x", line), "does not show the line")

    def test_lines_in_another_order(self):
        self.assert_found(self.commands("helix plan x", "max flow 710 tokens/s\nname layers memory"), "does not show the line")

    def test_what_is_never_so(self):
        self.assert_found(self.commands("helix plan x", "done", before="Repeat it until it is so:"), "does not show the line 'done'")

    def test_blocks_that_nothing_would_run(self):
        self.assert_found("Then:\n\n```\nhelix plan x\n```\n", "without a kind")
        self.assert_found("Then:\n\n    helix plan x\n", "indented")
        self.assert_found("Then:\n\n```sh\nhelix plan x\n", "without an end")
        self.assert_found("Then:\n\n```text\nhelix plan x\n```\n", "behind no commands")
        self.assert_found("Then:\n\n```toml\nname = 1\n```\n", "names no file")

    def test_what_was_left_running(self):
        leave = self.commands("helix serve x", before="Leave it running:")
        self.assert_found(leave, "do not end")
        self.assert_found(leave + self.commands("helix plan x"), "something runs")
        # The error may be seen at once, or at the end of the tutorial.
        self.assert_found(self.commands("helix paln", before="Leave it running:"), "ended with 2")
        self.assert_found(self.commands("helix paln", "serving at x", before="Leave it running:"), "ended with 2")
        kill = "pid=$(cat pid)\nkill -KILL $pid"
        self.assert_found(leave + self.commands(kill, before="In a new terminal:"), "ended with 137")
        again = leave + self.commands(kill, before="In a new terminal:") + "\n"
        self.assert_found(again + self.commands("true", before="In the first terminal, when it has ended:"), "ends with 137")
        self.follow(again + self.commands("true", before="It was ended; in the first terminal:"))

    def test_options_that_there_are_not(self):
        self.assert_found("Try `helix plan --bugdet 3s`.\n", "--bugdet is no option")
        self.assert_found("Try `helix paln --budget 3s`.\n", "no such command")

    def test_files_that_are_opened(self):
        write = self.commands("echo '<h2>Links</h2>' > run.html") + "\n"
        self.follow(write + "Open `run.html` and look at *Links*.\n")
        self.assert_found(write + "Open `run.html` and look at *Machines*.\n", "does not have 'Machines'")
        self.assert_found(write + "Open `runs.html` and look at *Links*.\n", "there is no runs.html")


if __name__ == "__main__":
    unittest.main()
