"""The memory plan that a model brings along for TFLM: where each tensor lies, planned offline instead of at start-up.

Sources: tflite-micro's page "Memory Management" (section "Offline planned tensor allocations") for the format, and its
``micro_allocation_info.cc``, ``micro_allocator.cc`` and ``greedy_memory_planner.cc`` for what TFLM makes of it.
"""
