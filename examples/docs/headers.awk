# Doxygen's filter for linnet's headers, whose comments are written to be read where they stand. A header becomes a
# page ("group") with the comment at its head as its text; "Throws: …" becomes a section; a "// ---- Title ----" heads
# the members after it; an indented example becomes code.
#
#   awk -v root=/path/of/the/project -f headers.awk /path/of/the/project/core/tensor.h

{ line[NR] = $0 }

END {
  path = substr(FILENAME, length(root) + 2)
  group = path
  sub(/\.h$/, "", group)
  room = group
  sub(/\/[^\/]*$/, "", room)
  gsub(/\//, "_", group)
  gsub(/\//, "_", room)

  head = head_comment()
  in_code = in_members = 0
  for (i = 1; i <= NR; ++i) {
    text = line[i]
    if (text == "#pragma once" && !head) {
      print "/// \\header{" group "," path ",room_" room "}"
    } else if (i == head) {
      print "/// \\header{" group "," path ",room_" room "} " substr(text, 5)
    } else if (text ~ /^namespace linnet.*\{$/) {
      print text
      print "/// \\members_of{" group "}"
    } else if (text ~ /^\}  \/\/ namespace linnet/) {
      end_members()
      print "///@}"
      print text
    } else if (text ~ /^ *\/\/ ---- .* ----$/) {
      end_members()
      sub(/^ *\/\/ ---- /, "", text)
      sub(/ ----$/, "", text)
      print "/// \\titled_members{" text "}"
      in_members = 1
    } else {
      if (text ~ /^(\};| private:| protected:)/) end_members()
      print code_or_text(text)
    }
  }
}

# The first line of the comment that speaks of the whole header: the one before the first namespace that an empty line
# parts from what follows.
function head_comment(   i, begin) {
  for (i = 1; i <= NR && line[i] !~ /^namespace/; ++i) {
    if (line[i] ~ /^\/\/\//) {
      if (!begin) begin = i
    } else if (begin) {
      if (line[i] == "") return begin
      begin = 0
    }
  }
  return 0
}

function end_members() {
  if (in_members) print "///@}"
  in_members = 0
}

# The text of a comment, where `<` and `\` would mean something else to Doxygen.
function documented(text) {
  if (text ~ /^ *\/\/\/ \|/) gsub(/</, "\\<", text)
  gsub(/'\\/, "'\\\\", text)
  if (match(text, /\/\/\/ (Shapes|Dtypes|Gradient|Cost|Throws|Source): /)) {
    label = substr(text, RSTART + 4, RLENGTH - 6)
    return substr(text, 1, RSTART + 3) "\\labelled{" label "} " substr(text, RSTART + RLENGTH)
  }
  return text
}

function code_or_text(text,   indent) {
  indent = text
  sub(/[^ ].*$/, "", indent)
  if (text ~ /^ *\/\/\/     /) {
    gsub(/\/\*[a-z_]+=\*\//, "", text)  # a comment within a comment
    if (!in_code) text = indent "/// \\code{.cpp}\n" text
    in_code = 1
    return text
  }
  if (in_code) {
    if (text ~ /^ *\/\/\/$/ && line[i + 1] ~ /^ *\/\/\/     /) return text
    in_code = 0
    return indent "/// \\endcode\n" documented(text)
  }
  return documented(text)
}
