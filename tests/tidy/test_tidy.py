"""Checks the house rules over the whole tree, and each rule on a bad snippet, to see it fail."""

import pathlib
import re
import shutil
import subprocess

import pytest
import tidy

MARKDOWN = (tidy.ROOT / tidy.ARCHITECTURE).read_text()
TABLE = tidy.include_table(MARKDOWN)
EXCEPTIONS = tidy.exception_table(MARKDOWN)
CLANG_FORMAT_VERSION = "14"  # Debian 12's; other versions break lines differently


def over(names, check, strip=""):
    complaints = []
    for name in names:
        text = (tidy.ROOT / name).read_text(encoding="utf-8")
        complaints += check(name.removeprefix(strip), text)
    assert not complaints, "\n" + "\n".join(complaints)


def in_src(suffixes=(".h", ".cpp", ".cu")):
    return [name for name in tidy.source_files(suffixes=suffixes) if name.startswith("src/")]


def test_the_table_lists_every_folder():
    folders = {str(pathlib.Path(name).parent.relative_to("src")) for name in in_src()} - {"."}
    assert folders == set(TABLE), f"make the table in {tidy.ARCHITECTURE} agree with src/"
    assert set(EXCEPTIONS) == set(tidy.FORBIDDEN)
    places = [place for places, _ in EXCEPTIONS.values() for place in places]
    gone = [place for place in places if not (tidy.ROOT / "src" / place).exists()]
    assert not gone, f"{tidy.ARCHITECTURE} makes exceptions for places that do not exist: {gone}"


def test_includes():
    over(in_src(), lambda name, text: tidy.check_includes(name, text, TABLE), "src/")


def test_things_kept_in_few_places():
    over(in_src(), lambda name, text: tidy.check_forbidden(name, text, EXCEPTIONS), "src/")


def test_tests_do_not_sleep():
    names = [name for name in tidy.source_files(suffixes=(".h", ".cpp", ".cu", ".py"))
             if name.startswith("tests/") and not name.startswith("tests/tidy/")]
    over(names, tidy.check_test_code)


def test_lines_and_files():
    over(tidy.source_files(), tidy.check_lines)


def test_functions():
    over(tidy.source_files(suffixes=(".h", ".cpp", ".cu")), tidy.check_functions)


def test_links():
    over(tidy.source_files(suffixes=".md"), tidy.check_links)


def test_the_swarms_divide_their_time():
    """So that all of them take as long as they are given."""
    texts = [path.read_text() for path in sorted(tidy.ROOT.glob("tests/unit/drivers_sim/*.cpp"))]
    shares = [float(share) for text in texts for share in re.findall(r"\.share = ([0-9.]+)", text)]
    assert len(shares) > 1 and sum(shares) == pytest.approx(1)


def clang_format(*arguments):
    program = shutil.which("clang-format")
    version = program and subprocess.run([program, "--version"], capture_output=True, text=True)
    if not version or f"version {CLANG_FORMAT_VERSION}." not in version.stdout:
        pytest.skip(f"clang-format {CLANG_FORMAT_VERSION} is not installed")
    return subprocess.run([program, *arguments], cwd=tidy.ROOT, capture_output=True, text=True)


def test_formatting():
    names = tidy.source_files(suffixes=(".h", ".cpp", ".cu"))
    done = clang_format("--dry-run", "-Werror", *names)
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
    assert done.returncode == 0, f"run `make format`; it would change: {', '.join(wrong)}"


# --- The checks can fail -------------------------------------------------------------------------


def complaints_about(snippet, name="model/layers.cpp"):
    return tidy.check_includes(name, snippet, TABLE) + tidy.check_forbidden(
        name, snippet, EXCEPTIONS
    )


@pytest.mark.parametrize(
    "snippet, part",
    [
        ('#include "cli/app.h"', "model may not include cli/app.h"),
        ('#include "layers.h"', "not a path from src/"),
        ("#include <toml++/toml.h>", "model may not use toml++"),
        ("#include <zmq.hpp>", "model may not use zmq"),
        ("auto t = std::chrono::steady_clock::now();", "take a `Clock`"),
        ("std::this_thread::sleep_for(x);", "sleeping"),
        ("std::mutex lock;", "one thread owns a worker"),
        ("std::atomic<int> counter{0};", "threads"),
        ("std::mt19937 engine;", "KeyedPermutation"),
        ("auto w = at::randn({3});", "randomness"),
        ('getenv("HOME");', "a key of the recipe"),
        ('std::printf("hello");', "`cli` prints it"),
        ('fmt::print("hello");', "stdout"),
        ("catch (...) {", "return a `Result`"),
    ],
)
def test_a_bad_snippet_is_found(snippet, part):
    found = complaints_about("int ok;\n" + snippet + "\n")
    assert len(found) == 1 and part in found[0], found
    assert found[0].startswith("src/model/layers.cpp:2: ")


@pytest.mark.parametrize(
    "snippet",
    [
        "// std::mutex would be wrong here; std::chrono::steady_clock too",
        'const char* text = "std::mutex \\" getenv(";',
        'R"(std::cout << 1)"',
        'fmt::print(stderr, "progress");',
        "std::snprintf(digits, 3, x);",
        "/* catch (...)\n std::rand() */",
        "#include <ATen/ATen.h>",
        '#include "base/rng.h"',
    ],
)
def test_a_good_snippet_is_left_alone(snippet):
    assert complaints_about(snippet) == []


def test_exceptions_follow_the_table():
    assert complaints_about("std::thread worker;", "data/ordered_pool.h") == []
    assert complaints_about("std::thread worker;", "data/sampler.cpp") != []
    assert complaints_about('#include "config/choices.h"', "model/shape.h") == []
    assert complaints_about('#include "config/load.h"', "model/shape.h") != []
    assert complaints_about("int x;", "newfolder/a.cpp") != []


def test_torch_in_a_header_is_found():
    assert "include ATen/ATen.h" in complaints_about("#include <torch/torch.h>", "model/a.h")[0]


@pytest.mark.parametrize(
    "name, text, part",
    [
        ("a.cpp", "x" * 101, "101 columns"),
        ("a.cpp", "int x;\n" * 401, "401 lines"),
        ("a.cpp", "// TO" "DO: later", "without an issue"),
        ("a.md", "see /ho" "me/me/notes", "machine-specific path"),
        ("a.py", "x = 1 ", "trailing spaces"),
        ("a.h", "int x;", "#pragma once"),
    ],
)
def test_bad_lines_are_found(name, text, part):
    found = tidy.check_lines(name, text)
    assert len(found) == 1 and part in found[0], found


def test_good_lines_are_left_alone():
    assert tidy.check_lines("a.cpp", "// TO" "DO(#12): later\n" + "x" * 100) == []
    assert tidy.check_lines("a.cpp", "// Long file: a table\n" + "int x;\n" * 500) == []
    assert tidy.check_lines("a.cpp", 'open("out/wo' 'rk/x");') == []


def test_a_long_function_is_found():
    body = "int f(int x) {\n" + "  x += 1;\n" * 70 + "}\n"
    assert "a function of 72 lines" in tidy.check_functions("a.cpp", body)[0]
    assert tidy.check_functions("a.cpp", body.replace("  x += 1;\n", "", 5)) == []


def test_sleeping_and_dead_links_are_found():
    assert tidy.check_test_code("t.py", "time.sleep(1)")
    assert tidy.check_test_code("t.cpp", "usleep(5);")
    assert tidy.check_links("README.md", "[here](docs/none.md)")
    assert tidy.check_links("README.md", "[here](docs/architecture.md#tests)") == []


def test_unformatted_code_is_found(tmp_path):
    shutil.copy(tidy.ROOT / ".clang-format", tmp_path)
    (tmp_path / "a.cpp").write_text("int  f( ){return 1 ;}\n")
    assert clang_format("--dry-run", "-Werror", str(tmp_path / "a.cpp")).returncode != 0
