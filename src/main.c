#include "trace.h"
int main(void){ fabt_trace_writer_start(3,0); FABT_TRACE(load,.worker=1); fabt_trace_writer_end(); return 0;}
