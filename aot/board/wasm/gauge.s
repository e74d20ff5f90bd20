# SPDX-License-Identifier: Apache-2.0
# The empty function and the loop that counts are gauged on: the loop takes 399,999 * 5 + 2 + 4 operations more.
	.section .text.tw_nothing,"",@
	.globl tw_nothing
	.type tw_nothing,@function
tw_nothing:
	.functype tw_nothing (i32, i32, i32) -> (i32)
	i32.const 0
	end_function

	.section .text.tw_no_step,"",@
	.globl tw_no_step
	.type tw_no_step,@function
tw_no_step:
	.functype tw_no_step (i32) -> ()
	end_function

	.section .text.tw_loop,"",@
	.globl tw_loop
	.type tw_loop,@function
tw_loop:
	.functype tw_loop (i32, i32, i32) -> (i32)
	i32.const 0
	drop
	i32.const 0
	drop
	i32.const 0
	drop
	i32.const 0
	drop
	i32.const 399999
	local.set 0
	loop
	local.get 0
	i32.const 1
	i32.sub
	local.tee 0
	br_if 0
	end_loop
	i32.const 0
	end_function
