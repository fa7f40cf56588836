#include <heddle/heddle.hpp>
int main() {}
