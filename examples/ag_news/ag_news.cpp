// ag_news: trains, evaluates and applies a self-attention classifier of news on BERT's embedding layer.
#include "system.hpp"

int main(int argc, char** argv) { return heddle::examples::trainer<heddle::examples::AgNews>(argc, argv); }
