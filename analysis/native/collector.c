/* SPDX-License-Identifier: BSD-3-Clause */
#include "collector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Collectors by id, so that a graph's parameters can name one without holding an address. */
#define COLLECTORS 64
static struct collector *collectors[COLLECTORS];
static int64_t ids_given;

/* What tables hand their chunks to: the collector's outlet, whose failure is remembered. */
static int write_chunk(void *context, struct table *table)
{
    struct collector *collector = context;
    const int rc = collector->outlet.write(collector->outlet.context, table);

    if (rc != 0 && collector->write_error == 0)
        collector->write_error = -rc;
    return rc;
}

static int open_outlet(struct collector *collector, const char *path)
{
    switch (collector->mode) {
    case COLLECTOR_SPILL:
        collector->outlet = (struct outlet){spill_write, &collector->spill};
        return spill_open(&collector->spill, path);
    case COLLECTOR_NPY:
        collector->outlet = (struct outlet){npy_write, &collector->npy};
        return npy_open(&collector->npy, path);
    case COLLECTOR_IN_MEMORY:
        break;
    }
    return 0;
}

static int make_documents(struct collector *collector)
{
    collector->environments = json_array();
    collector->streams = json_array();
    collector->declared = json_object(); /* a set: its values are null */
    collector->discarded = json_array();
    collector->missing = json_object();
    return collector->environments == NULL || collector->streams == NULL ||
                   collector->declared == NULL || collector->discarded == NULL ||
                   collector->missing == NULL
               ? -ENOMEM
               : 0;
}

int collector_new(enum collector_mode mode, const char *path, uint64_t chunk_rows,
                  struct collector **made)
{
    struct collector *collector;
    size_t place = 0;
    int rc;

    while (place < COLLECTORS && collectors[place] != NULL)
        place++;
    if (place == COLLECTORS)
        return -EMFILE;
    collector = calloc(1, sizeof(*collector));
    if (collector == NULL)
        return -ENOMEM;
    collector->mode = mode;
    collector->chunk_rows = chunk_rows == 0 ? 1 : chunk_rows;
    collector->spill.fd = -1;
    rc = open_outlet(collector, path);
    if (rc == 0)
        rc = make_documents(collector);
    if (rc != 0) {
        collector_delete(collector);
        return rc;
    }
    collector->id = ++ids_given;
    collectors[place] = collector;
    *made = collector;
    return 0;
}

void collector_delete(struct collector *collector)
{
    for (size_t i = 0; i < COLLECTORS; i++) {
        if (collectors[i] == collector)
            collectors[i] = NULL;
    }
    for (size_t i = 0; i < collector->table_count; i++) {
        table_free(collector->tables[i]);
        free(collector->tables[i]);
    }
    free(collector->tables);
    if (collector->mode == COLLECTOR_SPILL)
        spill_close(&collector->spill);
    npy_close(&collector->npy);
    json_decref(collector->environments);
    json_decref(collector->streams);
    json_decref(collector->declared);
    json_decref(collector->discarded);
    json_decref(collector->missing);
    free(collector);
}

struct collector *collector_find(int64_t id)
{
    for (size_t i = 0; i < COLLECTORS; i++) {
        if (collectors[i] != NULL && collectors[i]->id == id)
            return collectors[i];
    }
    return NULL;
}

struct table *collector_table_named(const struct collector *collector, const char *name)
{
    for (size_t i = 0; i < collector->table_count; i++) {
        if (strcmp(collector->tables[i]->event->name, name) == 0)
            return collector->tables[i];
    }
    return NULL;
}

struct table *collector_table(struct collector *collector, const struct schema_event *event)
{
    struct table *table = collector_table_named(collector, event->name);
    struct table **grown;

    if (table != NULL)
        return table;
    grown = realloc(collector->tables, (collector->table_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return NULL;
    collector->tables = grown;
    table = calloc(1, sizeof(*table));
    if (table == NULL)
        return NULL;
    if (table_init(table, event) != 0) {
        free(table);
        return NULL;
    }
    collector->tables[collector->table_count++] = table;
    return table;
}

int collector_make_room(struct collector *collector, struct table *table)
{
    const struct outlet outlet = {write_chunk, collector};

    return table_make_room(table, collector->chunk_rows,
                           collector->mode == COLLECTOR_IN_MEMORY ? NULL : &outlet);
}

int collector_next_source(struct collector *collector)
{
    const int rc = collector_flush(collector);

    collector->spill.source++;
    if (collector->progress != NULL) {
        collector->progress[2] = 0;
        __atomic_store_n(&collector->progress[1], collector->spill.source, __ATOMIC_RELAXED);
    }
    return rc;
}

void collector_note_packet(struct collector *collector)
{
    if (collector->progress != NULL)
        __atomic_fetch_add(&collector->progress[2], 1, __ATOMIC_RELAXED);
}

int collector_flush(struct collector *collector)
{
    const struct outlet outlet = {write_chunk, collector};
    int rc = 0;

    if (collector->mode == COLLECTOR_IN_MEMORY)
        return 0;
    for (size_t i = 0; rc == 0 && i < collector->table_count; i++)
        rc = table_flush(collector->tables[i], &outlet);
    return rc;
}

json_t *collector_text(const char *text)
{
    json_t *string = json_string(text == NULL ? "" : text);
    char *plain, *at;

    if (string != NULL || text == NULL)
        return string;
    plain = strdup(text); /* no UTF-8: keep what is ASCII */
    for (at = plain; at != NULL && *at != '\0'; at++) {
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    }
    string = plain == NULL ? NULL : json_string(plain);
    free(plain);
    return string;
}

/* Adds the environment unless an equal one is there, and returns its index. */
static int add_environment(struct collector *collector, json_t *environment)
{
    const size_t count = json_array_size(collector->environments);

    for (size_t i = 0; i < count; i++) {
        if (json_equal(json_array_get(collector->environments, i), environment)) {
            json_decref(environment);
            return (int)i;
        }
    }
    return json_array_append_new(collector->environments, environment) == 0 ? (int)count : -ENOMEM;
}

int collector_add_stream(struct collector *collector, const char *name, json_t *environment)
{
    const size_t number = json_array_size(collector->streams);
    const int index = add_environment(collector, environment);

    if (index < 0)
        return index;
    if (number >= COLLECTOR_STREAMS)
        return -EOVERFLOW;
    if (json_array_append_new(collector->streams,
                              json_pack("[o, i, i]", collector_text(name), index, -1)) != 0)
        return -ENOMEM;
    return (int)number;
}

int collector_stream_of_cpu(struct collector *collector, int like, int64_t cpu)
{
    json_t *stream = json_array_get(collector->streams, (size_t)like);
    const size_t count = json_array_size(collector->streams);
    const json_int_t known = json_integer_value(json_array_get(stream, 2));

    if (cpu < 0 || cpu > INT16_MAX || known == cpu)
        return like;
    if (known < 0)
        return json_array_set_new(stream, 2, json_integer(cpu)) == 0 ? like : -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const json_t *other = json_array_get(collector->streams, i);

        if (json_integer_value(json_array_get(other, 2)) == cpu &&
            json_equal(json_array_get(other, 0), json_array_get(stream, 0)) &&
            json_equal(json_array_get(other, 1), json_array_get(stream, 1)))
            return (int)i;
    }
    if (count >= COLLECTOR_STREAMS)
        return -EOVERFLOW;
    if (json_array_append_new(collector->streams,
                              json_pack("[O, O, I]", json_array_get(stream, 0),
                                        json_array_get(stream, 1), (json_int_t)cpu)) != 0)
        return -ENOMEM;
    return (int)count;
}

void collector_note_missing(struct collector *collector, const char *event, const char *field)
{
    json_t *fields = json_object_get(collector->missing, event);
    size_t index;
    json_t *known;

    if (fields == NULL) {
        fields = json_array();
        if (json_object_set_new(collector->missing, event, fields) != 0)
            return;
    }
    json_array_foreach(fields, index, known)
    {
        if (strcmp(json_string_value(known), field) == 0)
            return;
    }
    (void)json_array_append_new(fields, json_string(field)); /* a note; without it nothing breaks */
}

static json_t *describe_table(const struct table *table)
{
    json_t *columns = json_array();

    for (size_t i = 0; i < table->column_count; i++) {
        const struct column *column = &table->columns[i];

        (void)json_array_append_new(columns, json_pack("[s, s]", column->name, column->type));
    }
    return json_pack("{s: s, s: I, s: o}", "event", table->event->name, "rows",
                     (json_int_t)(table->flushed + table->rows), "columns", columns);
}

static json_t *describe_tables(const struct collector *collector)
{
    json_t *tables = json_array();

    for (size_t i = 0; i < collector->table_count; i++)
        (void)json_array_append_new(tables, describe_table(collector->tables[i]));
    return tables;
}

static json_t *describe_segments(const struct spill *spill)
{
    json_t *segments = json_array();

    for (size_t i = 0; i < spill->count; i++) {
        const struct segment *segment = &spill->segments[i];

        (void)json_array_append_new(
            segments, json_pack("[s, I, I, I, I]", segment->table->event->name,
                                (json_int_t)segment->source, (json_int_t)segment->offset,
                                (json_int_t)segment->rows, (json_int_t)segment->bytes));
    }
    return segments;
}

static json_t *names_of(json_t *set)
{
    json_t *names = json_array();
    const char *name;
    json_t *unused;

    json_object_foreach(set, name, unused)(void) json_array_append_new(names, json_string(name));
    return names;
}

char *collector_describe(const struct collector *collector)
{
    json_t *whole =
        json_pack("{s: O, s: O, s: o, s: O, s: O, s: s, s: i, s: I, s: o, s: o}", "environments",
                  collector->environments, "streams", collector->streams, "declared",
                  names_of(collector->declared), "discarded", collector->discarded, "missing",
                  collector->missing, "error", collector->error, "write_error",
                  collector->write_error, "events", (json_int_t)collector->events, "tables",
                  describe_tables(collector), "segments", describe_segments(&collector->spill));
    char *text = whole == NULL ? NULL : json_dumps(whole, JSON_COMPACT);

    json_decref(whole);
    return text;
}
