/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: what the analysis' plugin is built of. Rows come out of a table as they went in, in
 * memory and in chunks, however large; merging by time is what sorting gives, for any number of
 * inputs; the pointer map finds what was put in and nothing else. */
#include "harness.h"

#include <errno.h>

#include "merge.h"
#include "pointer_map.h"
#include "schema.h"
#include "table.h"

#define MOST_SOURCES 9
#define MOST_ROWS 200

static void an_event_is_found_by_its_full_name(void **state)
{
    (void)state;
    assert_string_equal(schema_find("fabt:op_post")->name, "op_post");
    assert_null(schema_find("op_post"));
    assert_null(schema_find("fabt:"));
    assert_null(schema_find("other:op_post"));
    assert_null(schema_find(NULL));
}

static void the_pointer_map_finds_what_was_put_in(void **state)
{
    static char keys[5000];
    struct pointer_map map = {0};

    (void)state;
    assert_null(pointer_map_find(&map, &keys[0]));
    for (size_t i = 0; i < sizeof(keys); i += 2)
        assert_int_equal(pointer_map_add(&map, &keys[i], &keys[sizeof(keys) - 1 - i]), 0);
    for (size_t i = 0; i < sizeof(keys); i++) {
        const void *found = pointer_map_find(&map, &keys[i]);

        assert_ptr_equal(found, i % 2 == 0 ? &keys[sizeof(keys) - 1 - i] : NULL);
    }
    pointer_map_free(&map);
    assert_null(pointer_map_find(&map, &keys[0]));
}

/* Appends a row whose fields all follow from its number. */
static void append_row(struct table *table, uint64_t number, uint64_t chunk_rows,
                       const struct outlet *outlet)
{
    if (table->rows >= table->limit)
        assert_int_equal(table_make_room(table, chunk_rows, outlet), 0);
    for (size_t i = 0; i < table->column_count; i++) {
        struct column *column = &table->columns[i];
        const uint32_t length = (uint32_t)((number + i) % 5);

        if (!schema_is_ragged(column->kind)) {
            memcpy(column->values.base + table->rows * column->width, &number, column->width);
            continue;
        }
        assert_int_equal(column_make_room(column, length), 0);
        memset(column->values.base + column->elements * column->width, (int)(number & 0x7F),
               length * column->width);
        table_set_length(table, column, length);
    }
    table->rows++;
}

/* Checks the rows in memory, of which the first has this number. */
static int check_rows(void *context, struct table *table)
{
    uint64_t *first = context;

    for (size_t i = 0; i < table->column_count; i++) {
        const struct column *column = &table->columns[i];
        const char *value = column->values.base;

        for (uint64_t row = 0; row < table->rows; row++) {
            const uint64_t number = *first + row;
            const uint32_t length = (uint32_t)((number + i) % 5);

            if (!schema_is_ragged(column->kind)) {
                assert_memory_equal(value + row * column->width, &number, column->width);
                continue;
            }
            assert_memory_equal(column->lengths.base + row * sizeof(length), &length,
                                sizeof(length));
            for (size_t j = 0; j < length * column->width; j++)
                assert_int_equal(*value++, number & 0x7F);
        }
    }
    *first += table->rows;
    return 0;
}

static void rows_stay_as_they_were_while_memory_grows(void **state)
{
    struct table table;
    uint64_t first = 0;

    (void)state;
    assert_int_equal(table_init(&table, schema_find("fabt:vector")), 0);
    for (uint64_t number = 0; number < 20000; number++)
        append_row(&table, number, 0, NULL);
    assert_int_equal(table.rows, 20000);
    assert_int_equal(check_rows(&first, &table), 0);
    table_free(&table);
}

static void chunks_are_all_rows_in_order(void **state)
{
    static const uint64_t chunks[] = {1, 2, 511, 512, 513, 5000};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        uint64_t first = 0;
        const struct outlet outlet = {check_rows, &first};
        struct table table;

        assert_int_equal(table_init(&table, schema_find("fabt:error")), 0);
        for (uint64_t number = 0; number < 3000; number++) {
            append_row(&table, number, chunks[i], &outlet);
            assert_true(table.rows <= chunks[i]);
        }
        assert_int_equal(table_flush(&table, &outlet), 0);
        assert_int_equal(first, 3000);
        assert_int_equal(table.flushed, 3000);
        table_free(&table);
    }
}

static int refuse(void *context, struct table *table)
{
    (void)context;
    (void)table;
    return -28;
}

static void what_the_outlet_says_is_handed_up(void **state)
{
    const struct outlet outlet = {refuse, NULL};
    struct table table;

    (void)state;
    assert_int_equal(table_init(&table, schema_find("fabt:eof")), 0);
    append_row(&table, 0, 1, &outlet);
    assert_int_equal(table_make_room(&table, 1, &outlet), -28);
    assert_int_equal(table.rows, 1);
    table_free(&table);
}

static int count_chunks(void *context, struct table *table)
{
    unsigned *chunks = context;

    assert_int_equal(table->rows, 3);
    (*chunks)++;
    return 0;
}

/* Few rows, but each with so much text that the third is enough. */
static void many_values_fill_a_chunk(void **state)
{
    unsigned chunks = 0;
    const struct outlet outlet = {count_chunks, &chunks};
    const uint32_t large = TABLE_CHUNK_VALUES / 3 + 1;
    struct table table;
    struct column *text;

    (void)state;
    assert_int_equal(table_init(&table, schema_find("fabt:error")), 0);
    text = &table.columns[table.column_count - 1];
    assert_int_equal(text->kind, SCHEMA_TEXT);
    for (unsigned i = 0; i < 10; i++) {
        if (table.rows >= table.limit)
            assert_int_equal(table_make_room(&table, 1000, &outlet), 0);
        assert_int_equal(chunks, i / 3);
        assert_int_equal(column_make_room(text, large), 0);
        table_set_length(&table, text, large);
        table.rows++;
    }
    assert_int_equal(column_make_room(text, UINT64_C(1) << 40), -EOVERFLOW);
    table_free(&table);
}

/* A row as sorting sees it. */
struct row {
    int64_t time;
    uint32_t source;
    uint32_t number;
};

static int compare_rows(const void *a, const void *b)
{
    const struct row *left = a, *right = b;

    if (left->time != right->time)
        return left->time < right->time ? -1 : 1;
    if (left->source != right->source)
        return left->source < right->source ? -1 : 1;
    return left->number < right->number ? -1 : 1;
}

static void merging_is_sorting(void **state)
{
    static int64_t times[MOST_SOURCES][MOST_ROWS];
    static uint32_t numbers[MOST_SOURCES][MOST_ROWS], merged[MOST_SOURCES * MOST_ROWS];
    static struct row rows[MOST_SOURCES * MOST_ROWS];
    static struct merge_run runs[MOST_SOURCES * MOST_ROWS];
    struct dice dice = {7};

    (void)state;
    for (unsigned round = 0; round < 500; round++) {
        const uint32_t sources = dice_below(&dice, MOST_SOURCES + 1);
        const int64_t *inputs[MOST_SOURCES];
        const void *columns[MOST_SOURCES];
        uint64_t counts[MOST_SOURCES], total = 0;

        for (uint32_t i = 0; i < sources; i++) {
            int64_t now = -50;

            inputs[i] = times[i];
            columns[i] = numbers[i];
            counts[i] = dice_below(&dice, MOST_ROWS + 1);
            for (uint32_t j = 0; j < counts[i]; j++, total++) {
                now += dice_chance(&dice, 40) ? dice_below(&dice, 4) : 0;
                times[i][j] = now;
                numbers[i][j] = (uint32_t)total;
                rows[total] = (struct row){now, i, (uint32_t)total};
            }
        }
        qsort(rows, total, sizeof(rows[0]), compare_rows);
        const int64_t made = merge_order(inputs, counts, sources, runs);

        assert_true(made >= 0 && (uint64_t)made <= total);
        merge_gather(columns, sizeof(numbers[0][0]), runs, (uint64_t)made, merged);
        for (uint64_t i = 0; i < total; i++)
            assert_int_equal(merged[i], rows[i].number);
    }
}

static void disorder_is_refused(void **state)
{
    const int64_t times[] = {1, 3, 2};
    const int64_t *inputs[] = {times};
    const uint64_t counts[] = {3};
    struct merge_run runs[3];

    (void)state;
    assert_int_equal(merge_order(inputs, counts, 1, runs), -EDOM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_found_by_its_full_name),
        cmocka_unit_test(the_pointer_map_finds_what_was_put_in),
        cmocka_unit_test(rows_stay_as_they_were_while_memory_grows),
        cmocka_unit_test(chunks_are_all_rows_in_order),
        cmocka_unit_test(what_the_outlet_says_is_handed_up),
        cmocka_unit_test(many_values_fill_a_chunk),
        cmocka_unit_test(merging_is_sorting),
        cmocka_unit_test(disorder_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
