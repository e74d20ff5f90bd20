/* Two memories beside the program: new weights as they come over the air, and a slow memory that only fetch reads. */
    .section .model_weights.new, "a"
    .balign 16
    .globl new_weights
new_weights:
    .incbin "new.bin"

    .section .slow_memory, "a"
    .balign 16
    .globl slow_memory
slow_memory:
    .incbin "paged/paged_weights.bin"
