// Ids are whole numbers: with -DIDS=float this must not compile.
#include <heddle/heddle.hpp>

heddle::Tensor<float> rows(const heddle::Tensor<IDS>& ids, const heddle::Tensor<float>& table) {
  return heddle::embed(ids, table);
}
