#!/usr/bin/env bash
# docs.sh FOLDER: writes the C++ of README.md, CONTRIBUTING.md and docs/ into sources in FOLDER/programs, FOLDER/pages
# and FOLDER/cuda; compiling them checks the code on the pages. Compile the sources in FOLDER/pages with `-include
# FOLDER/all.hpp`, a header that includes every other one. The conventions for a page:
#   ```cpp        with #include and int main() it is a separate program
#   ```cpp        otherwise it stands at file scope. All such blocks of a page form one source. The source is a program
#                 if a block has a main; otherwise it is in FOLDER/pages, after `using namespace heddle;`
#   ```cpp body   statements. They see the page's file-scope blocks and the variables of the page's earlier statements,
#                 and may redefine a name
#   ```cuda       a separate program for nvcc, FOLDER/cuda/PAGE-LINE.cu
#   <!-- cpp      or `<!-- cpp body`, up to a line `-->`: the same, but not shown to the reader, for declarations that
#                 the shown blocks need
# A block that is not to be compiled has another word, such as ```text.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
mkdir -p "$folder"/{programs,pages,cuda}

{
  echo '#include <heddle/heddle.hpp>'
  (cd include && find heddle/{io,text,data,train,models,view,distributed} -name '*.hpp' ! -name mpi.hpp -printf '#include <%p>\n' | sort)
} >"$folder/all.hpp"
{
  echo 'using namespace heddle;'
  for warning in unused-variable unused-but-set-variable unused-function unused-value shadow; do
    echo "#pragma GCC diagnostic ignored \"-W$warning\""
  done
} >"$folder/page.hpp"

mapfile -t pages < <(find README.md CONTRIBUTING.md docs -name '*.md' 2>/dev/null | sort)
[ ${#pages[@]} -gt 0 ] || { echo 'FAILED: there are no pages'; exit 1; }
awk -v folder="$folder" '
  function source(kind, name) { return folder "/" kind "/" name (kind == "cuda" ? ".cu" : ".cpp") }
  function write(text, file) { print text >file; close(file) }
  function end_of_page() {
    if (declarations == "" && statements == "") return
    if (declarations ~ /int main\(/) { write(declarations, source("programs", page)); return }
    file = source("pages", page)
    print "#include \"../page.hpp\"\n" declarations "static void page() {\n" statements >file
    for (; open >= 0; --open) print "}" >file
    close(file)
  }
  function end_of_block() {
    text = "#line " (begin + 1) " \"" FILENAME "\"\n" text
    if (kind == "body") { statements = statements text "{\n"; ++open }
    else if (kind == "cuda") write(text, source("cuda", page "-" begin))
    else if (text ~ /#include/ && text ~ /int main\(/) write(text, source("programs", page "-" begin))
    else declarations = declarations text
  }
  FNR == 1 { end_of_page(); page = FILENAME; gsub("/", "-", page); sub(/\.md$/, "", page); declarations = statements = ""; open = 0; inside = 0 }
  inside && (hidden ? /^-->/ : /^ *```/) { end_of_block(); inside = 0; next }
  inside { text = text $0 "\n"; next }
  /^ *```(cpp|cuda)|^<!-- cpp/ {
    inside = 1; begin = FNR; text = ""; hidden = /^</; kind = $0; sub(/^(<!-- | *```)(cpp *)?/, "", kind)
    if (kind !~ /^(body|cuda)?$/) { print "FAILED: " FILENAME ":" FNR ": cpp is followed by " kind ", expected body or nothing"; exit bad = 1 }
  }
  END { if (!bad) end_of_page(); exit bad }
' "${pages[@]}"
