// The labelled texts that bert_classifier is trained on: AG News, SST-2, or columns of a table.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <heddle/base/shape.hpp>

namespace heddle::examples {

/// Texts or pairs of texts. Each has a cell that names its class, or several cells, and a line in the file.
struct LabelledTexts {
  std::string file;                        // printable
  std::vector<std::string> first, second;  // `second` is empty without pairs
  std::vector<std::string> third;          // texts that do not belong to `first`; empty without them
  std::vector<std::string> label_columns;  // names of the columns of cells; empty without labels
  std::vector<std::string> labels;  // cells, row by row, without blanks around them; a whole number has one form: 2 for
                                    // 2.0
  std::vector<std::size_t> lines;   // line of each row, from 1
  bool numbers_first = false;       // whether a label is read as a number if possible, otherwise as a name
  std::string where(std::size_t row) const { return file + ':' + std::to_string(lines[row]); }
};

/// The columns of a table, and its format.
struct TableColumns {
  std::string text, second, label;  // `second` is empty without pairs; `label` may be several with commas between them
  std::string third = "";           // a text that does not belong to `text`; empty if there is none
  std::string format = "auto";  // csv, tsv, or auto: that of the file's name (.csv, .tsv), otherwise of its first line
};

/// Reads the first `limit` rows (0: all) of a table with a header, CSV or TSV without quoting. The first line of a file
/// of another name is CSV if it has commas and no tabs. Prints a note for each kind of change to the text. @throws
/// FileError as the readers of tables do, and for a table without rows.
LabelledTexts read_table(const std::string& path, const TableColumns& columns, Index limit);

/// Returns texts as they are, or, if they have third texts and no labels, two pairs for each: the second text with the
/// label 1, and the third one with the label 0.
LabelledTexts as_pairs(LabelledTexts texts);

/// Reads `limit` rows of a file of AG News (0: all) and repairs their text: the first ones, or, given a seed, rows
/// that it draws, in the file's order. The labels are the numbers of the classes, from 0. @throws FileError as
/// read_news() does.
LabelledTexts read_ag_news(const std::string& path, Index limit, std::optional<std::uint64_t> seed = {});

/// Returns the class of each row. A cell is a class's name, otherwise its number from 0 if `may_be_numbers`;
/// `numbers_first` reverses this order. @throws FileError with file and line for a cell that is neither, and for an
/// empty one.
std::vector<int> class_of_each(const LabelledTexts& texts, const std::vector<std::string>& classes,
                               bool may_be_numbers);

/// The classes of a table.
struct Classes {
  std::vector<std::string> names;
  bool are_numbers;  // whether its cells are numbers of classes
};
/// Returns the classes of both files: the distinct cells sorted by their bytes, or, if all of them are whole numbers
/// below 1,000,000, LABEL_0, LABEL_1 and so on up to the highest number. @throws FileError for fewer than two classes,
/// for more than 10,000, and for a cell that is empty or has invalid bytes or control characters.
Classes classes_in(const LabelledTexts& train, const LabelledTexts& valid);

/// The targets of texts: as many numbers for each row.
struct Targets {
  Index width = 0;            // numbers of a row
  std::vector<float> values;  // row by row
};
/// Returns the labels of both files: the names of the columns, or, if there is one column of names with | between them,
/// the distinct names sorted by their bytes. @throws FileError for no label, for more than 10,000, and for a name that
/// is empty, has invalid bytes or control characters, or is that of a column and has a |.
std::vector<std::string> labels_in(const LabelledTexts& train, const LabelledTexts& valid);
/// Returns 1 for each label that a row has, and 0 for the others. A row of one column has the labels that its cell
/// names; several columns hold 0 or 1 for the label of their place. @throws FileError with file and line for a name
/// that is no label or is there twice, for another cell, and unless there is a column for each label.
Targets label_sets(const LabelledTexts& texts, const std::vector<std::string>& labels);
/// Returns the numbers in the cells. If columns have the names of labels, each number is at its label's place. @throws
/// FileError with file and line for a cell that is no number from `least` to `most`, and if only some of the columns
/// have the name of a label.
Targets numbers_in(const LabelledTexts& texts, double least, double most, const std::vector<std::string>& labels = {});

/// Returns the classes of labels that are numbers: LABEL_0, LABEL_1 and so on up to the highest.
Classes numbered_classes(int highest);

/// Returns whether a class has a whole number below 1,000,000 as its name. Then a number in a table is a name, never
/// the number of a class.
bool has_number(const std::vector<std::string>& classes);

}  // namespace heddle::examples
