# Doxygen's filter for linnet's headers, whose comments are written to be read in the source. A header becomes a
# page ("group") with the comment at its head as its text, or a line about its classes; "Throws: …" becomes a section; a
# "// ---- Title ----" heads the members after it; an indented example becomes code. A comment belongs to all functions
# down to the next empty line or comment, so each of them gets it.
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
  for (i = 1; i <= NR; ++i) {
    text = line[i]
    if (is_for_the_compiler(declaration_at(i))) {
      i = last_of_declaration(declaration_at(i))
    } else if (text == "#pragma once" && !head) {
      print "/// \\header{" group "," path ",room_" room "} " abbreviated(brief())
    } else if (i == head) {
      print "/// \\header{" group "," path ",room_" room "} " abbreviated(substr(text, 5))
    } else if (text ~ /^namespace linnet.*\{$/) {
      print text
      print "/// \\members_of{" group "}"
    } else if (text ~ /^\}  \/\/ namespace linnet/) {
      end_members()
      print "///@}"
      print text
      while (i < NR && line[i + 1] !~ /^namespace/) ++i  # skips the code for namespace std
    } else if (text ~ /^ *\/\/ ---- .* ----$/) {
      begin_members(text)
    } else {
      if (text ~ /^(\};| private:| protected:)/) end_members()
      if (text == " private:") {
        while (line[i + 1] !~ /^(\};| public:| protected:)/) ++i
        continue
      }
      if (!is_default(text)) declaration_or_comment(text)
    }
  }
}

# The first line of the comment on the whole header: the comment before the first namespace that has an empty line
# after it.
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

# The line about a header without such a comment: the first sentence of its class or of its first function, or the names
# of its classes.
function brief(   i, at, name, names, count, first, only) {
  for (i = 1; i <= NR; i = at + 1) {
    at = declaration_at(i)
    if (at == i || line[i] !~ /^\/\/\//) continue
    if (!first) first = i
    name = declared_at(at)
    if (line[at] !~ /^(class|struct) / || name ~ /(Config|Options|Inputs|State)$/) continue
    names = names (count++ ? ", " : "") name
    if (line[at] ~ /^class /) only = i
  }
  if (count > 1) return names "."
  return first ? sentence_at(only ? only : first) : ""
}

# The name that a line of code declares.
function declared_at(at,   name) {
  name = line[at]
  if (sub(/^(class|struct) (\[\[.*\]\] )?/, "", name)) sub(/[^A-Za-z0-9].*$/, "", name)
  else sub(/\(.*$/, "", name) && sub(/^.* /, "", name)
  return name
}

# The first sentence of the comment that begins at a line. If it begins with a formula, the name comes before it.
function sentence_at(at,   text) {
  for (; line[at] ~ /^\/\/\/ /; ++at) text = text (text == "" ? "" : " ") substr(line[at], 5)
  if (match(text, /[.:]( [A-Z]|$)/)) text = substr(text, 1, RSTART - 1)
  return (text ~ /^[a-z]/ ? declared_at(declaration_at(at)) ": " : "") text "."
}

# Marks "al." in a text, so that Doxygen does not end a sentence at its dot.
function abbreviated(text) {
  gsub(/ al\. /, " al.\\ ", text)
  return text
}

# Whether it is a function that exists only so that the compiler rejects a mistake with a message.
function is_for_the_compiler(at) {
  return line[at] ~ /^ *template <NotAModule/ || (line[at] ~ /^ *template </ && line[at + 2] ~ /static_assert\(detail::refused/)
}

# The line after a comment that begins at this one.
function declaration_at(at) {
  while (line[at] ~ /^ *\/\/\//) ++at
  return at
}

function last_of_declaration(at,   last, indent) {
  indent = line[at]
  sub(/[^ ].*$/, "", indent)
  for (last = at + 1; last < NR; ++last) {
    if (line[last] ~ ("^" indent "([^ ].*)?[;}]$")) return last
  }
  return at
}

function begin_members(text) {
  end_members()
  sub(/^ *\/\/ ---- /, "", text)
  sub(/ ----$/, "", text)
  refused = text ~ /do not compile/
  if (refused) {
    print "/// \\cond"
  } else {
    print "/// \\titled_members{" text "}"
  }
  in_members = 1
}

function end_members() {
  if (in_members) print refused ? "/// \\endcond" : "///@}"
  in_members = refused = 0
}

# Whether a line declares a copy or a move.
function copy_or_move(text,   name, other) {
  if (text !~ /^ *[A-Z][A-Za-z0-9]*(& operator=)?\((const )?[A-Z][A-Za-z0-9]*&&? ?[a-z]*\)/ || text ~ /= delete;/) return 0
  name = text
  sub(/^ */, "", name)
  other = name
  sub(/[^A-Za-z0-9].*$/, "", name)
  sub(/^[^(]*\((const )?/, "", other)
  sub(/[^A-Za-z0-9].*$/, "", other)
  return name == other
}

# Destructors, and copies and moves that the compiler writes, without a comment of their own.
function is_default(text) {
  if (line[i - 1] ~ /^ *\/\/\//) return 0
  return text ~ /^ *(virtual )?~[A-Za-z]+\(\).*[;}]$/ || text ~ /^ *(virtual )?~?[A-Za-z]+&? ?(operator=)?\([^()]*&?&?[^()]*\).* = default;$/
}

function declaration_or_comment(text,   indent, begins) {
  indent = text
  sub(/[^ ].*$/, "", indent)
  if (text ~ /^ *\/\/\//) {
    if (!in_comment) comment = ""
    in_comment = 1
    text = documented(text, indent)
    comment = comment text "\n"
    comment_indent = indent
    print text
    return
  }
  if (in_code) {
    comment = comment comment_indent "/// \\endcode\n"
    print comment_indent "/// \\endcode"
    in_code = 0
  }
  gsub(/'\\t'/, "a tab", text)
  begins = text ~ /^ *[A-Za-z~]/ && text !~ /^ *(public|private|protected):/ && !after_template
  if (text == "" || text ~ /:$/) {
    comment = ""
  } else if (begins && !in_comment && !is_inside && text !~ /\/\/\/</ && (text ~ /\(/ || text ~ /^ *template/)) {
    whole = text ~ /^ *template/ ? line[i + 1] : text ~ /[;}]( *\/\/.*)?$/ ? text : text line[i + 1]
    if (copy_or_move(text)) print indent "/// " (text ~ /&&/ ? "Moved from" : "A copy of") " the other."
    else if (comment != "" && indent == comment_indent && text !~ /= delete;|override/) printf "%s", comment
    else if (whole ~ /NOLINT\(google-explicit-constructor\)/) print indent "/// An implicit conversion" reason_in(whole)
    else if (whole ~ /^ *[A-Za-z0-9]+\(Module& parent, std::string name/) print indent "/// A submodule of `parent`, `name` there."
    else if (path == "core/views.h") print "/// As Tensor::" name_in(whole) "."
    else if (path == "core/tensor.h" && indent == "  " && in_members) print "  /// As the function linnet::" name_in(whole) "."
  }
  after_template = text ~ /^ *(template|requires)/ && text !~ /;/
  is_inside = text !~ /[;}]( *\/\/.*)?$/ && text !~ /^ *\/\// && !after_template && text != "" && text !~ /:$/ \
    && text !~ /\{$/
  was_comment = in_comment
  in_comment = 0
  if (!print_each(text, was_comment ? comment : "")) print text
}

# Prints `Tensor q, k;  ///< heads` as two declarations, each with the comment.
function print_each(text, comment,   note, type, count, names, k) {
  if (text !~ /^ *[A-Za-z_][A-Za-z0-9_:<>,* ]*[ *][a-z][A-Za-z0-9_]*( = [^,()]+)?(, [a-z][A-Za-z0-9_]*( = [^,()]+)?)+;/ &&
      text !~ /^ *static constexpr int64_t k[A-Za-z]+ = [0-9]+, /) return 0
  note = ""
  if (match(text, / *\/\/\/<.*/)) {
    note = substr(text, RSTART)
    text = substr(text, 1, RSTART - 1)
  }
  sub(/;.*$/, "", text)
  count = split(text, names, ", ")
  type = names[1]
  sub(/ = .*$/, "", type)
  sub(/[A-Za-z0-9_]+$/, "", type)
  for (k = 1; k <= count; ++k) {
    if (k > 1) printf "%s", comment
    print (k > 1 ? type : "") names[k] ";" note
  }
  return 1
}

# The reason that a comment beside an implicit conversion gives.
function reason_in(text) {
  if (!match(text, /constructor\): /)) return "."
  return ": " substr(text, RSTART + RLENGTH) "."
}

# The function that a line declares.
function name_in(text) {
  sub(/\(.*/, "", text)
  sub(/.* /, "", text)
  return text
}

# Converts a line of a comment, in which `<` and `\` would mean something else to Doxygen.
function documented(text, indent,   label) {
  gsub(/Where [a-vx-z]/, "%&", text)  # the word, not the struct
  if (text ~ /^ *\/\/\/     /) {
    gsub(/\/\*[a-z_]+=\*\//, "", text)  # a comment within a comment
    sub(/\/\/\/     /, "/// ", text)
    if (!in_code) text = indent "/// \\code{.cpp}\n" text
    in_code = 1
    return text
  }
  if (in_code && !(text ~ /^ *\/\/\/$/ && line[i + 1] ~ /^ *\/\/\/     /)) {
    in_code = 0
    return indent "/// \\endcode\n" documented(text, indent)
  }
  if (text ~ /^ *\/\/\/ \|/) gsub(/</, "\\<", text)
  gsub(/'\\/, "'\\\\\\\\", text)
  if (match(text, /\/\/\/ (Shapes|Dtypes|Gradient|Cost|Throws|Source): /)) {
    label = substr(text, RSTART + 4, RLENGTH - 6)
    return substr(text, 1, RSTART + 3) "\\labelled{" label "} " substr(text, RSTART + RLENGTH)
  }
  return text
}
