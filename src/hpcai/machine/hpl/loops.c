/* HPL's own loops around the BLAS: row exchanges, and the factorisation of a panel. */
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define DEPTH 32
/* Columns at which the recursion of a panel ends, as set in HPL's input file. */
#define SMALLEST 4
#define SLOT_HEAD 64

enum { COLUMN_MAJOR = 102, AS_IS = 111, LOWER = 122, UNIT = 132, LEFT = 141 };

/* Routines of a BLAS, and the slots in shared memory by which the processes of a panel agree on pivots. */
struct panel_context {
    size_t (*idamax)(int, const double *, int);
    void (*dscal)(int, double, double *, int);
    void (*dger)(int, int, int, double, const double *, int, const double *, int, double *, int);
    void (*dgemm)(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
    void (*dtrsm)(int, int, int, int, int, int, int, double, const double *, int, double *, int);
    char *slots;
    size_t slot_bytes;
    double patience_s; /* longest wait for another process */
    long met;
    int processes, place;
};

/* Rows are moved 32 columns of one row, then of the next one. LAPACK's DLASWP takes all rows of a few columns first and
 * has fewer accesses to memory under way. */
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

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

/* Give `count` numbers to the other processes and get theirs, polling as MPI does; 1 if one of them does not come. */
static int meet(struct panel_context *context, int count, const double *own, double *all)
{
    /* In turns in one of two boxes: who is late still reads the last one. */
    size_t bytes = count * sizeof(double), box = SLOT_HEAD + (context->met++ & 1) * bytes;
    char *mine = context->slots + context->place * context->slot_bytes;
    memcpy(mine + box, own, bytes);
    atomic_store_explicit((_Atomic long *)mine, context->met, memory_order_release);
    double end_s = 0;
    for (int place = 0; place < context->processes; place++) {
        char *slot = context->slots + place * context->slot_bytes;
        for (long looks = 1; atomic_load_explicit((_Atomic long *)slot, memory_order_acquire) < context->met; looks++)
            if (looks % 65536 == 0) { /* on a core of its own it never waits that long */
                sched_yield();
                end_s = end_s ? end_s : now_s() + context->patience_s;
                if (now_s() > end_s)
                    return 1;
            }
        memcpy(all + (size_t)place * count, slot + box, bytes);
    }
    return 0;
}

/* One column (HPL_pdpanrlN, HPL_pdmxswp, HPL_dlocswpN): the largest of all processes is the pivot. Its row goes to the
 * upper block, which each process has, the row that was there to the pivot's place. `given`: a process's pivot, its
 * place, its row, and the row of the column. */
static int eliminate(struct panel_context *context, int rows, int block, double *panel, double *upper, double *given,
                     int column, int end, int *pivots)
{
    int first = context->place == 0, begin = first ? column : 0, count = 2 + 2 * block, winner = 0;
    double *all = given + count, *here = panel + (size_t)column * rows;
    int pivot = begin + (int)context->idamax(rows - begin, here + begin, 1);
    given[0] = fabs(here[pivot]);
    given[1] = pivot;
    copy(block, panel + pivot, rows, given + 2, 1);
    if (first)
        copy(block, panel + column, rows, given + 2 + block, 1);
    if (context->processes == 1)
        all = given;
    else if (meet(context, count, given, all))
        return 1;
    for (int place = 1; place < context->processes; place++)
        if (all[place * count] > all[winner * count])
            winner = place;
    copy(block, all + winner * count + 2, 1, upper + column, block);
    if (context->place == winner)
        copy(block, all + 2 + block, 1, panel + pivot, rows);
    if (first)
        copy(block, all + winner * count + 2, 1, panel + column, rows);
    pivots[column] = (int)all[winner * count + 1];
    begin += first;
    context->dscal(rows - begin, 1 / upper[column + (size_t)column * block], here + begin, 1);
    if (column + 1 < end)
        context->dger(COLUMN_MAJOR, rows - begin, end - column - 1, -1, here + begin, 1,
                      upper + column + (size_t)(column + 1) * block, block, here + rows + begin, rows);
    return 0;
}

/* Factorise columns `first` to `end` of a panel, recursively in halves (HPL_pdrpanrlN). */
static int recurse(struct panel_context *context, int rows, int block, double *panel, double *upper, double *given,
                   int first, int end, int *pivots)
{
    if (end - first <= SMALLEST) {
        for (int column = first; column < end; column++)
            if (eliminate(context, rows, block, panel, upper, given, column, end, pivots))
                return 1;
        return 0;
    }
    int middle = first + (end - first) / 2, done = context->place == 0 ? middle : 0;
    if (recurse(context, rows, block, panel, upper, given, first, middle, pivots))
        return 1;
    double *right = upper + first + (size_t)middle * block;
    context->dtrsm(COLUMN_MAJOR, LEFT, LOWER, AS_IS, UNIT, middle - first, end - middle, 1,
                   upper + first + (size_t)first * block, block, right, block);
    context->dgemm(COLUMN_MAJOR, AS_IS, AS_IS, rows - done, end - middle, middle - first, -1,
                   panel + done + (size_t)first * rows, rows, right, block, 1,
                   panel + done + (size_t)middle * rows, rows);
    return recurse(context, rows, block, panel, upper, given, middle, end, pivots);
}

/* Factorise a panel, rows x block on each process; the first one has the block's rows. `upper`: block x block, for L1.
 * `given`: (processes + 1) (2 + 2 block) numbers. `pivots`: for each column its row, on the process that has it. */
int factorise(struct panel_context *context, int rows, int block, double *panel, double *upper, double *given,
              int *pivots)
{
    return recurse(context, rows, block, panel, upper, given, 0, block, pivots);
}
