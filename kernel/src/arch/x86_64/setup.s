// The first sectors of a bzImage: the header that loaders read, and 16-bit code for those that start a kernel in real
// mode, as QEMU and iPXE do. GRUB and U-Boot read the header only. The tools put this in front of the image's memory; it
// is no part of that. [Linux, Documentation/arch/x86/boot.rst; zero-page.rst]
//
// The first 4 KiB become struct boot_params as they are, so the code begins behind them. Everything is addressed from
// the start of the section, which is linked at 0 and where ds points; cs is 20h higher.

.section .setup, "", @progbits
.code16
setup:
    .org 0x1f1
    .byte 9                     // setup_sects, without the first: (setup_end - setup) / 512 - 1
    .short 0                    // root_flags
    .long __file_paragraphs     // syssize, of 16 bytes
    .short 0                    // ram_size
    .short 0xffff               // vid_mode: normal
    .short 0                    // root_dev
    .short 0xaa55               // boot_flag
    .byte 0xeb, header_end - 1f // jump, short
1:  .ascii "HdrS"
    .short 0x020f               // version
    .long 0                     // realmode_swtch
    .short 0x1000               // start_sys_seg, obsolete
    .short name - setup - 0x200 // kernel_version
    .byte 0                     // type_of_loader
    .byte 1                     // loadflags: LOADED_HIGH
    .short 0x8000               // setup_move_size
    .long __text_start          // code32_start
    .long 0, 0                  // ramdisk_image, ramdisk_size
    .long 0                     // bootsect_kludge
    .short 0                    // heap_end_ptr
    .byte 0, 0                  // ext_loader_ver, ext_loader_type
    .long 0                     // cmd_line_ptr
    .long 0x7fffffff            // initrd_addr_max
    .long 0x1000                // kernel_alignment
    .byte 0                     // relocatable_kernel
    .byte 12                    // min_alignment, as a power of two
    .short 1                    // xloadflags: XLF_KERNEL_64
    .long 4095                  // cmdline_size
    .long 0                     // hardware_subarch
    .quad 0                     // hardware_subarch_data
    .long 0, 0                  // payload_offset, payload_length
    .quad 0                     // setup_data
    .quad __text_start          // pref_address
    .long __image_size          // init_size
    .long 0                     // handover_offset
    .long 0                     // kernel_info_offset
header_end:
    jmp setup_code

    .org 0x1000
setup_code:
    cli
    cld
    mov ax, ds
    mov es, ax
    // The memory map, by BIOS call E820h: at 2D0h, 20 bytes each, at most 128; their number at 1E8h.
    xor ebx, ebx
    xor bp, bp
    mov di, 0x2d0
2:  mov eax, 0xe820
    mov edx, 0x534d4150         // "SMAP"
    mov ecx, 20
    int 0x15
    jc 3f
    cmp eax, 0x534d4150
    jne 3f
    inc bp
    add di, 20
    test ebx, ebx
    jz 3f
    cmp bp, 128
    jb 2b
3:  mov ax, bp
    mov byte ptr [0x1e8], al
    // Address line 20: by the BIOS, then by the port that chipsets have for it (bit 0 would be a reset).
    mov ax, 0x2401
    int 0x15
    in al, 0x92
    or al, 2
    and al, 0xfe
    out 0x92, al
    // Where this segment is decides two addresses.
    xor esi, esi
    mov si, ds
    shl esi, 4
    lea eax, [esi + setup_gdt]
    mov dword ptr [setup_gdt_pointer + 2], eax
    lea eax, [esi + setup_protected]
    mov dword ptr [setup_jump + 2], eax
    lgdt [setup_gdt_pointer]
    mov eax, cr0
    or eax, 1
    mov cr0, eax
setup_jump:
    .byte 0x66, 0xea            // far jump, 32-bit
    .long 0
    .short 0x10
.code32
setup_protected:
    mov eax, 0x18
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov fs, eax
    mov gs, eax
    xor ebx, ebx
    xor ebp, ebp
    xor edi, edi
    mov eax, dword ptr [esi + 0x214]    // code32_start
    jmp eax
    .balign 8
setup_gdt:                      // flat, at the selectors the protocol names
    .quad 0, 0
    .quad 0x00cf9a000000ffff
    .quad 0x00cf92000000ffff
setup_gdt_pointer:
    .short 31
    .long 0
name:
    .asciz "Trireme"
    .org 0x1400
setup_end:
.code64
.text
