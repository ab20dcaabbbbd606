# Doxygen's filter for linnet's Markdown, which is written for GitHub. Formulas $…$ and $$…$$ become Doxygen's, links and
# the names of headers become references, and a page gets an id from its path.
#
#   awk -v root=/path/of/the/project -v build=/path/of/the/build -v headers="core/tensor.h …" -f markdown.awk README.md

BEGIN {
  count = split(headers, paths, " ")
  for (i = 1; i <= count; ++i) is_header[paths[i]] = 1
}

FNR == 1 {
  path = FILENAME
  if (index(path, root "/") == 1) path = substr(path, length(root) + 2)
  if (build != "" && index(FILENAME, build "/tutorial/") == 1) path = "tutorial/" substr(FILENAME, length(build "/tutorial/") + 1)
  folder = path
  if (!sub(/\/[^\/]*$/, "", folder)) folder = ""
}

/^ *(```|~~~)/ {
  in_code = !in_code
  sub(/```c\+\+/, "```cpp")  # code of other libraries, which the tests do not compile
  print
  next
}

in_code || (/^    / && !in_list) {
  print
  next
}

/^\$\$$/ {
  print in_display ? "\\f]" : "\\f["
  in_display = !in_display
  next
}

in_display {
  print
  next
}

/^#+ / {
  in_list = 0
  title = $0
  if (!headings++) {
    sub(/\. /, ".\302\240", title)  # or Doxygen would take "# 1. Tensors" for a list
    if (path != "README.md" && title !~ /\{#/) title = title " {#" page_id(path) "}"
  } else if (title !~ /\{#/) {
    title = title " {#" page_id(path) "_" slug(title) "}"
  }
  title = inline(title)
  sub(/%Where /, "Where ", title)  # Doxygen makes no links in headings, and would print the sign
  print title
  next
}

{
  if (/^ *([-*]|[0-9]+\.) /) in_list = 1
  else if (/^[^ ]/ && !pending) in_list = 0
  text = $0
  if (pending != "") {
    sub(/^ +/, "", text)
    text = pending " " text
  }
  pending = ""
  if ($0 != "" && text !~ /^ *\|/ && is_open(text)) pending = text
  else print inline(text)
}

# Whether code, a formula or a link begins in a line and ends in a later one. Doxygen would misread such lines.
function is_open(text) {
  if (gsub(/`/, "`", text) % 2) return 1
  gsub(/`[^`]*`/, "", text)
  if (gsub(/\$\$/, "", text) % 2 || gsub(/\$/, "", text) % 2) return 1
  return text ~ /\[[^]]*$/
}

END {
  if (pending != "") print inline(pending)
}

function page_id(path) {
  sub(/\.md$/, "", path)
  sub(/^examples\/docs\//, "", path)
  gsub(/[^A-Za-z0-9]+/, "_", path)
  sub(/^_/, "", path)
  return tolower(path)
}

# The anchor of a heading, as GitHub makes it.
function slug(title,   times) {
  sub(/^#+ +/, "", title)
  title = tolower(title)
  gsub(/[^a-z0-9 _-]/, "", title)
  gsub(/ /, "-", title)
  times = slugs[title]++
  return times ? title "-" times : title
}

# Turns a path that is relative to the folder of this page into a path from the root.
function from_root(relative,   parts, count, i, result, depth) {
  if (folder != "") relative = folder "/" relative
  count = split(relative, parts, "/")
  depth = 0
  for (i = 1; i <= count; ++i) {
    if (parts[i] == "..") --depth
    else if (parts[i] != "." && parts[i] != "") kept[++depth] = parts[i]
  }
  result = kept[1]
  for (i = 2; i <= depth; ++i) result = result "/" kept[i]
  return result
}

function group_of(header) {
  sub(/\.h$/, "", header)
  gsub(/\//, "_", header)
  return header
}

# The file of a header's page, for a link with code in its text. (Doxygen's references cannot have code in their text.)
function page_of(header) {
  header = group_of(header)
  gsub(/_/, "__", header)
  return "group__" header ".html"
}

# Converts one line. Code in backticks stays as it is, except the name of a header, which becomes a link.
function inline(text,   result, before, rest, ticks, close_at, code, name) {
  # **`bold code`** and **(1) Bold**: Doxygen would print their stars
  while (match(text, /\*\*[`(][^*]+\*\*/)) {
    text = substr(text, 1, RSTART - 1) "<b>" substr(text, RSTART + 2, RLENGTH - 4) "</b>" substr(text, RSTART + RLENGTH)
  }
  result = ""
  while (match(text, /`+/)) {
    before = substr(text, 1, RSTART - 1)
    ticks = substr(text, RSTART, RLENGTH)
    rest = substr(text, RSTART + RLENGTH)
    result = result plain(before)
    close_at = index(rest, ticks)
    if (!close_at) return result plain(ticks rest)
    code = substr(rest, 1, close_at - 1)
    name = is_header[code] ? code : from_root(code)
    text = substr(rest, close_at + length(ticks))
    if (is_header[name] && substr(text, 1, 1) != "]") {
      result = result "<a href=\"" page_of(name) "\"><code>" code "</code></a>"
    } else if (code ~ /'/ && ticks == "`") {
      result = result "``" code "``"  # Doxygen would read `don't` as a quotation
    } else {
      result = result ticks code ticks
    }
  }
  return result plain(text)
}

function plain(text) {
  gsub(/Where [a-vx-z]/, "%&", text)  # the word, not the struct
  return formulas(links(text))
}

function links(text,   result, target, anchor, begin, size, page) {
  result = ""
  while (match(text, /\]\([^ )]*\)/)) {
    begin = RSTART
    size = RLENGTH
    target = substr(text, begin + 2, size - 3)
    anchor = ""
    if (match(target, /#.*$/)) {
      anchor = substr(target, RSTART + 1)
      target = substr(target, 1, RSTART - 1)
    }
    if (from_root(target) == "examples/tutorial") {
      target = "@ref " (has_tutorial ? "tutorial" : "index")
    } else if (from_root(target) == "examples/own_attention.cpp") {
      target = "@ref own_attention"
    } else if (target !~ /^[a-z]+:/ && (target ~ /\.md$/ || (target == "" && anchor != ""))) {
      page = page_id(target == "" ? path : from_root(target))
      if (page == "readme" && anchor == "") page = "index"
      target = "@ref " page (anchor == "" ? "" : "_" anchor)
    } else if (target ~ /\.h$/ && is_header[from_root(target)]) {
      target = "@ref " group_of(from_root(target))
    } else if (anchor != "") {
      target = target "#" anchor
    }
    result = result substr(text, 1, begin + 1) target ")"
    text = substr(text, begin + size)
  }
  return result text
}

# Converts $x$ and, within a line, $$x$$. No formula begins with a space, ends with one, or comes before a digit.
function formulas(text,   result, before, body) {
  result = ""
  while (match(text, /\$\$[^$]+\$\$/)) {
    before = substr(text, 1, RSTART - 1)
    body = substr(text, RSTART + 2, RLENGTH - 4)
    text = substr(text, RSTART + RLENGTH)
    result = result inline_formulas(before) "\\f[" body "\\f]"
  }
  return result inline_formulas(text)
}

function inline_formulas(text,   result, body, after) {
  result = ""
  while (match(text, /\$[^ $]([^$]*[^ $\\])?\$/)) {
    body = substr(text, RSTART + 1, RLENGTH - 2)
    after = substr(text, RSTART + RLENGTH, 1)
    if (after ~ /[0-9]/) {
      result = result substr(text, 1, RSTART)
      text = substr(text, RSTART + 1)
      continue
    }
    result = result substr(text, 1, RSTART - 1) "\\f$" body "\\f$"
    text = substr(text, RSTART + RLENGTH)
  }
  return result text
}
