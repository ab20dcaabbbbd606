# Makes the page of a chapter, in Markdown, from its source and its output:
#
#   awk -v output=OUTPUT.txt -f page.awk NN_name.cpp > NN_name.md
#
# Comment lines that begin in column 0 are text, and all other lines are code. The line "// <!-- output -->" becomes
# the output. The page of a chapter, which has an output, ends with a link to its solutions.

function end_code() {
  if (in_code) print "```\n"
  in_code = 0
  blank_lines = 0
}

function print_output(   line, status) {
  print "The program prints:\n\n```text"
  while ((status = (getline line < output)) > 0) print line
  print "```\n"
  if (status < 0) {
    print "page.awk: cannot read " output > "/dev/stderr"
    exit 1
  }
}

/^\/\/( |$)/ {
  end_code()
  if ($0 == "// <!-- output -->") print_output()
  else print substr($0, 4)
  in_text = 1
  next
}

/^$/ {
  ++blank_lines
  next
}

{
  if (!in_code) print (in_text ? "\n" : "") "```cpp"
  else for (; blank_lines > 0; --blank_lines) print ""
  in_code = 1
  in_text = 0
  blank_lines = 0
  print
}

END {
  end_code()
  if (output == "") exit
  name = FILENAME
  gsub(/^.*\/|\.cpp$/, "", name)
  print "\n[Solutions](solutions/" name ".md)"
}
