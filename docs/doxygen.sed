# What Doxygen reads in place of a header: its plain comments as documentation, each in its own line.

# The comment at the top is the file's, not that of what comes first in it.
s~^#pragma once$~/// \\file~
# The build's inline namespaces are not part of the names that users write.
s~^inline namespace [a-z0-9_]+ \{$~~
s~^\}  // (inline )?namespace (v[0-9_]+|onednn|with_cuda|avx.*)$~~
s~^class heddle::Tensor \{$~class Tensor {~
# Neither backslashes nor angle brackets are commands here.
/^ *\/\/ |;  +\/\/ / s~\\~\\\\~g
# Comments between functions and classes. One in the body of a function explains its code and stays what it is.
s~^// ~/// ~
# The same between the members of a class, and behind one in its line.
/^(class|struct|enum)[^;]*$/,/^\};/ {
  s~^  // ~  /// ~
  s~^(  [A-Za-z].*[;}])  +// ~\1  ///< ~
  s~^(  [A-Za-z].* \{)  +// ~\1  /// ~
}
# Conventions, the same in every class that follows them.
s~^  static void visit\(auto~  /** Names the members: see nn/module.hpp. */ &~
s~^  [A-Za-z]+\(const [A-Za-z]+& other, Cloning& c\)~  /** For clone(). */ &~
s~^  HEDDLE_HD static auto f\(~  /** The value at x. */ &~
s~^  HEDDLE_HD static auto df\(~  /** The derivative at x, where y = f(x). */ &~
# The shape behind a parameter.
s~^( {10,}const|  Tensor<A>|[A-Za-z])(.*),  +// (.*)$~\1\2,  ///< shape: \3~
s~^( {10,}const [^()]*)\)( const)? \{  +// (.*)$~\1 /**< shape: \3 */)\2 {~
/\/\/\/|\/\*\*/ {
  :next
  s~(///.*[^\\])<([A-Za-z:_0-9]+>)~\1\\<\2~
  t next
}
