/* SPDX-License-Identifier: BSD-3-Clause
 * The Babeltrace 2 plugin `fabt`: what its component classes are called and what they say of
 * themselves (`babeltrace2 --plugin-path=DIR help sink.fabt.columns`). */
#include <babeltrace2/babeltrace.h>

#include "columns_sink.h"
#include "summary_sink.h"

#pragma GCC diagnostic ignored "-Wpedantic" /* Babeltrace's macros end in semicolons of their own \
                                             */

BT_PLUGIN_MODULE();
BT_PLUGIN(fabt);
BT_PLUGIN_DESCRIPTION("Events of fabtget and fabtput as columns, and what is lost of them.");
BT_PLUGIN_AUTHOR("fabtrace");
BT_PLUGIN_LICENSE("BSD-3-Clause");

BT_PLUGIN_SINK_COMPONENT_CLASS(columns, columns_consume);
BT_PLUGIN_SINK_COMPONENT_CLASS_DESCRIPTION(columns,
                                           "Write each field of each event as a NumPy file.");
BT_PLUGIN_SINK_COMPONENT_CLASS_HELP(
    columns,
    "Parameter `path`: a folder, which is made. It gets PATH/EVENT/FIELD.npy, an array with an\n"
    "element an event; of text and sequences FIELD.lengths.npy and FIELD.values.npy; and\n"
    "trace.json, which describes the streams. Memory stays bounded.\n"
    "\n"
    "    babeltrace2 --plugin-path=DIR TRACE -c sink.fabt.columns -p 'path=\"out\"'\n"
    "\n"
    "Programs give `collector` instead, see api.h.");
BT_PLUGIN_SINK_COMPONENT_CLASS_INITIALIZE_METHOD(columns, columns_initialize);
BT_PLUGIN_SINK_COMPONENT_CLASS_FINALIZE_METHOD(columns, columns_finalize);
BT_PLUGIN_SINK_COMPONENT_CLASS_GRAPH_IS_CONFIGURED_METHOD(columns, columns_graph_is_configured);

BT_PLUGIN_SINK_COMPONENT_CLASS(summary, summary_consume);
BT_PLUGIN_SINK_COMPONENT_CLASS_DESCRIPTION(summary,
                                           "Count events by name, and those lost between.");
BT_PLUGIN_SINK_COMPONENT_CLASS_HELP(
    summary,
    "Prints a line an event name: events, first and last time in seconds since the first event,\n"
    "writers, and how many are missing between a writer's first and last (gaps in `seq`).\n"
    "No parameters.\n"
    "\n"
    "    babeltrace2 --plugin-path=DIR TRACE -c sink.fabt.summary");
BT_PLUGIN_SINK_COMPONENT_CLASS_INITIALIZE_METHOD(summary, summary_initialize);
BT_PLUGIN_SINK_COMPONENT_CLASS_FINALIZE_METHOD(summary, summary_finalize);
BT_PLUGIN_SINK_COMPONENT_CLASS_GRAPH_IS_CONFIGURED_METHOD(summary, summary_graph_is_configured);
