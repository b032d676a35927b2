// What a custom operator's half for PopART looks like from outside: it needs Graphcore's headers.

#include <popart/op.hpp>
