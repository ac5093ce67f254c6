/* SPDX-License-Identifier: BSD-3-Clause
 * Component class sink.fabt.columns. See columns_sink.c. */
#ifndef FABT_COLUMNS_SINK_H
#define FABT_COLUMNS_SINK_H

#include <babeltrace2/babeltrace.h>

bt_component_class_initialize_method_status
columns_initialize(bt_self_component_sink *self,
                   bt_self_component_sink_configuration *configuration, const bt_value *parameters,
                   void *data);
void columns_finalize(bt_self_component_sink *self);
bt_component_class_sink_graph_is_configured_method_status
columns_graph_is_configured(bt_self_component_sink *self);
bt_component_class_sink_consume_method_status columns_consume(bt_self_component_sink *self);

#endif
