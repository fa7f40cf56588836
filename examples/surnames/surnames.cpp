// surnames: trains, evaluates and applies a classifier of surnames by language.
#include "system.hpp"

int main(int argc, char** argv) { return heddle::examples::trainer<heddle::examples::Surnames>(argc, argv); }
