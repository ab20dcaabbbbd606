# Converts CUDA to C++: launches, and variables in shared memory. It keeps lines, so that errors name the right ones.

s/(\w+)<<<(.*)>>>\((.*)\);/::linnet::emulation::launch(\1, \2, \3);/
s/__shared__ (.* )(\w+)((\[.*\])?);$/static \1\2\3; ::linnet::emulation::use_shared(\&\2, sizeof \2);/

/<<<|__shared__/ {
  s/.*/rewrite.sed does not know how to rewrite: &/
  w /dev/stderr
  q 1
}
