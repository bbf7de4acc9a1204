/* Row exchanges in the order of HPL: 32 columns of one row, then of the next one. LAPACK's DLASWP takes all rows of a
 * few columns first and has fewer accesses to memory under way. */
#include <stddef.h>
#include <string.h>

#define DEPTH 32

static int width_of(int begin, int columns) { return columns - begin < DEPTH ? columns - begin : DEPTH; }

static void exchange(int width, double *one, size_t one_leading, double *other, size_t other_leading)
{
    for (int column = 0; column < width; column++, one += one_leading, other += other_leading) {
        double kept = *one;
        *one = *other;
        *other = kept;
    }
}

static void copy(int width, const double *from, size_t from_leading, double *to, size_t to_leading)
{
    for (int column = 0; column < width; column++, from += from_leading, to += to_leading)
        *to = *from;
}

/* On one process row (HPL_dlaswp00N): exchange row i with row pivots[i], counted from the first row of the matrix, for
 * one i after the other. */
void exchange_rows(int rows, int columns, double *matrix, size_t leading, const int *pivots)
{
    for (int begin = 0; begin < columns; begin += DEPTH, matrix += DEPTH * leading)
        for (int row = 0; row < rows; row++)
            if (pivots[row] != row)
                exchange(width_of(begin, columns), matrix + row, leading, matrix + pivots[row], leading);
}

/* On several process rows (HPL_pdlaswp01N), without messages: what two of them do one after the other, in turns the
 * one that has the block's rows and another one. `shared` pivots lie on each.
 *
 * The block's rows take those that the last update left in U (HPL_dlacpy). They and their pivots go to U, or where a
 * pivot lay (HPL_dlaswp01N); U's rows are exchanged with the other process's pivots (HPL_dlaswp06N); U is ordered.
 *
 * matrix: from the block's first row on. pivots: 2 * shared places in it. upper: U, block x columns. order: of its rows,
 * as for exchange_rows. */
void share_rows(int block, int shared, int columns, double *matrix, size_t leading, double *upper, const int *pivots,
                const int *order)
{
    for (int column = 0; column < columns; column++)
        memcpy(matrix + column * leading, upper + (size_t)column * block, block * sizeof(double));
    double *rows = matrix, *slots = upper;
    for (int begin = 0; begin < columns; begin += DEPTH, rows += DEPTH * leading, slots += (size_t)DEPTH * block) {
        int width = width_of(begin, columns);
        for (int place = 0; place < shared; place++)
            copy(width, rows + pivots[place], leading, slots + place, block);
        for (int row = 0; row < block; row++)
            if (row < shared)
                copy(width, rows + row, leading, rows + pivots[row], leading);
            else
                copy(width, rows + row, leading, slots + row, block);
    }
    rows = matrix, slots = upper;
    for (int begin = 0; begin < columns; begin += DEPTH, rows += DEPTH * leading, slots += (size_t)DEPTH * block)
        for (int place = 0; place < shared; place++)
            exchange(width_of(begin, columns), rows + pivots[shared + place], leading, slots + block - 1 - place, block);
    exchange_rows(block, columns, upper, block, order);
}
