// Interrupt and exception entry. One stub of 16 bytes for each vector pushes its number (and a zero where the
// CPU pushes no error code) and goes to the common path. All run on interrupt stacks (see descriptors.rs).

.section .text.entry, "ax"
.code64
.balign 16
.global entry_stubs
entry_stubs:
.set vector, 0
.rept 256
    .balign 16
    // Vectors with an error code: 8, 10 to 14, 17, 21, 29, 30.
    .if (vector == 8) || ((vector >= 10) && (vector <= 14)) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30)
        push vector
        jmp exception_common
    .elseif vector < 32
        push 0
        push vector
        jmp exception_common
    .else
        push vector
        jmp interrupt_common
    .endif
    .set vector, vector + 1
.endr

// On the stack: vector, rip, cs, rflags, rsp, ss.
.balign 16
interrupt_common:
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    mov rdi, [rsp + 72]
    // 15 words and these make the stack a multiple of 16 again; handlers may use vector registers.
    sub rsp, 520
    fxsave64 [rsp]
    cld
    call {interrupt}
    fxrstor64 [rsp]
    add rsp, 520
    test al, al
    jnz 2f
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    add rsp, 8
    iretq

    // The interrupted code is to give way: make it look as if it had called preempt itself. The 15 words go to
    // its own stack, below its red zone, and the interrupt stack is free for the next.
2:  mov rsi, rsp
    mov rdi, [rsi + 104]
    sub rdi, 128 + 120
    and rdi, -16
    mov rdx, rdi
    mov ecx, 15
    rep movsq
    mov rsp, rdx
    sub rsp, 512
    fxsave64 [rsp]
    // A frame for the backtrace, pointing at the interrupted code.
    push [rsp + 512 + 80]
    push rbp
    mov rbp, rsp
    sti
    call {preempt}
    cli
    pop rbp
    add rsp, 8
    fxrstor64 [rsp]
    add rsp, 512
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    add rsp, 8
    iretq

// On the stack: vector, error code, rip, cs, rflags, rsp, ss. Never returns.
.balign 16
exception_common:
    push rax
    push rbx
    push rcx
    push rdx
    push rsi
    push rdi
    push rbp
    push r8
    push r9
    push r10
    push r11
    push r12
    push r13
    push r14
    push r15
    cld
    mov rdi, rsp
    and rsp, -16
    call {exception}
    ud2
