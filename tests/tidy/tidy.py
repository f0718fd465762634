"""The house rules as functions: text in, complaints ("file:line: what; what to do") out."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHITECTURE = "docs/architecture.md"
COLUMNS_MAX = 100
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
FOLDERS = "src web tests bench cmake docs recipes tools .ci".split()

# Start of an #include <...> -> its word in the table's column "libraries".
LIBRARIES = {
    "ATen/": "torch",
    "c10/": "torch",
    "torch/": "torch",
    "fmt/": "fmt",
    "nlohmann/": "nlohmann",
    "toml++/": "toml++",
    "CLI/": "CLI",
    "xxhash.h": "xxhash",
    "pcre2.h": "pcre2",
    "sentencepiece": "sentencepiece",
    "zstd.h": "zstd",
    "zlib.h": "zlib",
    "httplib.h": "httplib",
    "zmq.h": "zmq",  # and zmq.hpp
    "mpi.h": "mpi",
    "cuda": "cuda",
}

# Rule of the table "Kept in few places" -> pattern that breaks it, in code without comments and
# string literals.
FORBIDDEN = {
    "clock": r"\b(steady|system|high_resolution)_clock\b|\b(clock_gettime|gettimeofday)\s*\(|"
    r"\bstd::time\s*\(",
    "sleeping": r"\bsleep_(for|until)\b|\b(sleep|usleep|nanosleep)\s*\(",
    "threads": r"\bstd::(jthread|thread|async|future|promise|atomic\w*|mutex|\w+_mutex|once_flag|"
    r"call_once|lock_guard|unique_lock|scoped_lock|condition_variable\w*)\b|\bpthread_\w+",
    "randomness": r"\b(random_device|mt19937(_64)?|minstd_rand\w*|default_random_engine)\b|"
    r"\b\w+_distribution\b|\bstd::rand\b|\b(at|torch)::(rand\w*|normal|bernoulli|multinomial)\s*\(",
    "environment": r"\b(secure_)?getenv\s*\(",
    "stdout": r"\bstd::cout\b|\b(printf|puts|putchar)\s*\(|\bfmt::print\s*\((?!\s*stderr\b)|"
    r"\bstdout\b",
    "catch-all": r"\bcatch\s*\(\s*\.\.\.\s*\)",
}

# Files whose line lengths are not ours to choose, or that read best with long lines.
LONG_LINES_ALLOWED = (".md", ".json", ".toml", ".txt", ".svg")


def source_files(root=ROOT, suffixes=None):
    """Every file of the project, as paths relative to its root, without build outputs."""
    found = [path for path in root.iterdir() if path.is_file()]
    for folder in FOLDERS:
        found += [path for path in (root / folder).rglob("*") if path.is_file()]
    relative = sorted(str(path.relative_to(root)) for path in found)
    ours = [name for name in relative if "__pycache__" not in name and name != "LICENSE"]
    return [name for name in ours if suffixes is None or name.endswith(suffixes)]


def without_comments_and_texts(code):
    """The same lines with comments and string literals emptied, so that only code remains."""
    pattern = re.compile(
        r'R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S
    )
    return pattern.sub(lambda match: '""' + "\n" * match.group().count("\n"), code)


def table_rows(markdown, first_header):
    """The rows, as lists of cells, of the table with this first header."""
    rows, inside = [], False
    for line in markdown.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[0] == first_header:
            inside = True
        elif inside and not set(line) <= set("|-: "):
            rows.append(cells)
    return rows


def include_table(markdown):
    """folder -> (folders and files it may include, libraries it may include)"""
    return {
        row[0].strip("`"): (
            set(re.findall(r"`([^`]+)`", row[1])),
            {word.strip() for word in row[2].split(",") if word.strip()},
        )
        for row in table_rows(markdown, "folder")
        if len(row) == 4
    }


def exception_table(markdown):
    """rule -> (places in src/ where it does not apply, what to use instead)"""
    return {
        row[0]: (re.findall(r"`([^`]+)`", row[1]), row[2])
        for row in table_rows(markdown, "kept out")
    }


def folder_of(path, table):
    """The row for a file of src/ or an include: the longest match."""
    fitting = [folder for folder in table if path.startswith(folder + "/")]
    return max(fitting, key=len) if fitting else None


def check_includes(name, text, table):
    """`name` is relative to src/."""
    own = folder_of(name, table)
    if own is None and "/" in name:
        return [f"src/{name}:1: its folder has no row in {ARCHITECTURE}; add one"]
    folders, libraries = table[own] if own else ({"cli", "base"}, {"torch"})
    complaints = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        where, target = f"src/{name}:{number}", match.group(2)
        if name.endswith(".h") and target == "torch/torch.h":
            complaints.append(f"{where}: torch/torch.h in a header; include ATen/ATen.h")
        if match.group(1) == '"':
            folder = folder_of(target, table)
            if folder is None:
                complaints.append(f'{where}: "{target}" is not a path from src/; write it in full')
            elif folder != own and folder not in folders and target not in folders:
                complaints.append(
                    f"{where}: {own} may not include {target}; move the code to a folder that "
                    f"may, or change the table in {ARCHITECTURE} with a decision note"
                )
            continue
        word = next((word for start, word in LIBRARIES.items() if target.startswith(start)), None)
        if word and word not in libraries:
            complaints.append(
                f"{where}: {own} may not use {word} (<{target}>); see {ARCHITECTURE}"
            )
    return complaints


def check_forbidden(name, text, exceptions):
    """`name` is relative to src/."""
    complaints = []
    code = without_comments_and_texts(text).splitlines()
    for rule, (places, instead) in exceptions.items():
        if any(name == place or name.startswith(place + "/") for place in places):
            continue
        for number, line in enumerate(code, 1):
            match = re.search(FORBIDDEN[rule], line)
            if match:
                complaints.append(
                    f"src/{name}:{number}: {rule}: '{match.group().strip()}' is not allowed here; "
                    f"instead: {instead}"
                )
    return complaints


def check_test_code(name, text):
    """Tests do not sleep: they would be slow when they pass and fail on a busy machine."""
    pattern = FORBIDDEN["sleeping"] + r"|\btime\.sleep\b"
    code = without_comments_and_texts(text) if name.endswith((".h", ".cpp", ".cu")) else text
    return [
        f"{name}:{number}: a test sleeps; wait for the event itself, or control the clock"
        for number, line in enumerate(code.splitlines(), 1)
        if re.search(pattern, line) and "FORBIDDEN" not in line
    ]


def check_lines(name, text):
    complaints = []
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX and not name.endswith(LONG_LINES_ALLOWED):
            complaints.append(f"{name}:{number}: {len(line)} columns; break it at {COLUMNS_MAX}")
        if re.search(r"\bTO" r"DO\b(?!\(#\d+\))|\bFIX" r"ME\b", line):
            complaints.append(f"{name}:{number}: open work without an issue; name it: (#number)")
        if re.search(r"(?<![\w.~-])/(home|root|work|Users|mnt)/\w", line):
            complaints.append(f"{name}:{number}: a machine-specific path; use a relative one")
        if line != line.rstrip():
            complaints.append(f"{name}:{number}: trailing spaces; remove them")
    code_suffixes = (".h", ".cpp", ".cu", ".py", ".js", ".css")
    long_code = len(lines) > FILE_LINES_MAX and name.endswith(code_suffixes)
    if long_code and not any("Long file:" in line for line in lines[:10]):
        complaints.append(
            f"{name}:1: {len(lines)} lines; split it, or say why at the top ('Long file: ...')"
        )
    if name.endswith(".h") and "#pragma once" not in lines:
        complaints.append(f"{name}:1: a header without #pragma once; add it")
    return complaints


def check_functions(name, text):
    """A function starts at the left margin, as clang-format puts it, and ends there too."""
    complaints, start = [], None
    for number, line in enumerate(without_comments_and_texts(text).splitlines(), 1):
        if re.match(r"(class|struct|enum|union|namespace)\b", line):
            start = None
        elif start is None and re.match(r"[A-Za-z_].*\(", line):
            start = number
        if re.match(r"\S.*[;}]$", line) and not line.startswith("}"):
            start = None  # a declaration, or a function on one line
        if line.startswith("}"):
            if start is not None and number - start + 1 > FUNCTION_LINES_MAX:
                complaints.append(
                    f"{name}:{start}: a function of {number - start + 1} lines; at most "
                    f"{FUNCTION_LINES_MAX}; split it into named parts"
                )
            start = None
    return complaints


def check_links(name, text, root=ROOT):
    """`name` is relative to the root; the target of every relative link must exist."""
    complaints = []
    code_block = re.compile(r"^```.*?^```", re.S | re.M)
    prose = code_block.sub(lambda match: "\n" * match.group().count("\n"), text)
    for number, line in enumerate(prose.splitlines(), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:|#", target):
                continue
            if not (root / name).parent.joinpath(target.split("#")[0]).exists():
                complaints.append(f"{name}:{number}: '{target}' does not exist; fix the link")
    return complaints
