// Entries, each at the place its protocol wants, and from all of them to 64-bit mode on a first page table that
// maps 1 GiB one to one, then to Rust with the protocol's number and its structure's address.
//
// - PVH (Xen's "x86/HVM direct boot ABI"): 32-bit protected mode, paging off, flat segments, ebx = physical address of
//   struct hvm_start_info. The loader has cleared .bss.
// - Linux/x86, 32-bit: the same with esi = struct boot_params; the file ends before .bss. First byte of the image.
// - Linux/x86, 64-bit: long mode, the image mapped one to one, rsi = struct boot_params; 200h bytes further.
//   [Linux, Documentation/arch/x86/boot.rst]

.section .note.pvh, "a", @note
    .balign 4
    .long 4                     // name length
    .long 8                     // descriptor length
    .long 18                    // XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad pvh_start

.section .text.boot, "ax"
.code32
linux_start:
    // U-Boot enters the kernel of a FIT here in long mode. These bytes are `inc eax; nop` in 32 bits, `nop` in 64.
    xor eax, eax
    .byte 0x40, 0x90
    test eax, eax
    jz linux_long
    cli
    cld
    rdtsc
    mov dword ptr [boot_tsc], eax
    mov dword ptr [boot_tsc + 4], edx
linux_clear:
    mov edi, offset __bss_start
    mov ecx, offset __image_end
    sub ecx, edi
    xor eax, eax
    rep stosb
    mov ebx, 1
    jmp 5f

    .org 0x200
linux_long:
.code64
    // The protocol leaves open which page tables there are. Back to 32 bits, without them, everything is known.
    cli
    cld
    rdtsc
    mov dword ptr [boot_tsc], eax
    mov dword ptr [boot_tsc + 4], edx
    mov rsp, offset __boot_stack_top
    lgdt [boot_gdt_pointer]
    push 16
    mov rax, offset linux_compatible
    push rax
    retfq
.code32
linux_compatible:
    mov eax, 24
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov eax, cr0
    and eax, 0x7fffffff         // paging off
    mov cr0, eax
    mov ecx, 0xc0000080
    rdmsr
    and eax, 0xfffffeff         // EFER: LME off
    wrmsr
    mov eax, 0x20               // CR4: PAE alone; no five levels, no process contexts
    mov cr4, eax
    jmp linux_clear

.global pvh_start
pvh_start:
    cli
    cld
    mov esi, ebx
    xor ebx, ebx
    // Time zero.
    rdtsc
    mov dword ptr [boot_tsc], eax
    mov dword ptr [boot_tsc + 4], edx

    // Is there memory where the image lies? A loader does not say that it wrote into nothing, and nothing beyond
    // this page may be touched before that is known. hvm_start_info: version at 4; from version 1, address of the
    // memory map at 40, its entries' count at 48; an entry: address, size, type (1 is RAM) and 4 spare bytes.
    cmp dword ptr [esi + 4], 1
    jb 5f
    mov edi, dword ptr [esi + 40]
    mov ecx, dword ptr [esi + 48]
    test ecx, ecx
    jz 5f
3:  cmp dword ptr [edi + 16], 1
    jne 4f
    cmp dword ptr [edi + 4], 0
    jne 4f
    mov eax, offset __text_start
    sub eax, dword ptr [edi]
    jb 4f
    add eax, offset __image_end
    sub eax, offset __text_start
    cmp dword ptr [edi + 12], 0
    jne 5f
    cmp eax, dword ptr [edi + 8]
    jbe 5f
4:  add edi, 24
    dec ecx
    jnz 3b
    // To the first serial port, which swallows it if it is not there; then status 101, as for a panic, to QEMU's
    // exit device.
    mov esi, offset no_memory
6:  lodsb
    test al, al
    jz 8f
    mov ah, al
    mov dx, 0x3fd
    mov ecx, 100000
7:  in al, dx
    test al, 0x20
    loopz 7b
    mov dx, 0x3f8
    mov al, ah
    out dx, al
    jmp 6b
8:  mov dx, 0xf4
    mov al, 101
    out dx, al
9:  hlt
    jmp 9b
no_memory:
    .asciz "trireme: too little memory: the image does not fit\r\n"

5:  mov esp, offset __boot_stack_top

    // 512 blocks of 2 MiB, present, writable.
    mov edi, offset boot_directory
    mov eax, 0x83
2:  mov dword ptr [edi], eax
    mov dword ptr [edi + 4], 0
    add edi, 8
    add eax, 0x200000
    cmp eax, 0x40000083
    jne 2b
    mov eax, offset boot_directory
    or eax, 3
    mov dword ptr [boot_pointers], eax
    mov eax, offset boot_pointers
    or eax, 3
    mov dword ptr [boot_root], eax
    mov eax, offset boot_root
    mov cr3, eax

    // PAE, OSFXSR, OSXMMEXCPT.
    mov eax, cr4
    or eax, 0x620
    mov cr4, eax
    // EFER: LME, NXE.
    mov ecx, 0xc0000080
    rdmsr
    or eax, 0x900
    wrmsr
    // CR0: PG, WP, NE, MP; EM and TS off.
    mov eax, cr0
    and eax, 0xfffffff3
    or eax, 0x80010022
    mov cr0, eax

    lgdt [boot_gdt_pointer]
    .byte 0xea                  // far jump
    .long long_mode
    .short 8

.code64
long_mode:
    xor eax, eax
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov fs, eax
    mov gs, eax
    fninit
    xor ebp, ebp
    mov edi, ebx
    mov esi, esi                // clears the upper half
    call {main}
    ud2

.section .rodata.boot, "a"
    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00209a0000000000    // 64-bit code
    .quad 0x00cf9a000000ffff    // 32-bit code, flat
    .quad 0x00cf92000000ffff    // data, flat
boot_gdt_pointer:
    .short 31
    .long boot_gdt
    .long 0

.section .data.boot, "aw"
    .balign 8
.global boot_tsc
boot_tsc:
    .quad 0

.section .bss.boot, "aw", @nobits
    .balign 4096
boot_root:
    .skip 4096
boot_pointers:
    .skip 4096
boot_directory:
    .skip 4096
