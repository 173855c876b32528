/* shim.h -- torch's C interface, as far as Wick uses it, found at run time
 *
 * torch's own headers for it do not compile as C; the binary interface does not mind. Every
 * function is named once, in a list, and looked up by name in the torch that is already in the
 * process. Nothing of torch is needed at build time, nothing is linked, and a function that this
 * torch does not have is a NULL pointer.
 */
#ifndef WICK_SHIM_H
#define WICK_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct torch_tensor
    *torch_handle; /* at::Tensor *; owned or borrowed as the function says */
typedef struct torch_library *torch_library_handle;
typedef struct torch_list *torch_list_handle;
typedef struct torch_string *torch_string_handle;
typedef uint64_t torch_ivalue; /* one argument or result, encoded */
typedef int32_t torch_error;   /* 0: fine */
typedef void (*torch_kernel)(torch_ivalue *stack, uint64_t n_args, uint64_t n_results);
typedef void (*torch_body)(int64_t begin, int64_t end, void *arg);

/* R(result, name, parameters): required. O: may be missing in an older or a CPU-only torch. */
#define TORCH_SHIM(R, O)                                                                           \
    /* What a plain call needs, side by side. The names without a C spelling are internals, not    \
     * promised by torch and used only after internals.c has checked what they answer:             \
     * TensorImpl::requires_grad and _fw_grad, bump_version, torch_function_mode_enabled,          \
     * hasCallbacks. */                                                                            \
    R(torch_error, aoti_torch_delete_tensor_object, (torch_handle))                                \
    R(torch_error, aoti_torch_get_data_ptr, (torch_handle, void **))                               \
    R(torch_error, aoti_torch_empty_strided,                                                       \
      (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, torch_handle *))      \
    R(bool, aoti_torch_grad_mode_is_enabled, (void))                                               \
    O(bool, _ZNK3c1010TensorImpl13requires_gradEv, (const void *))                                 \
    O(const void *, _ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE,                            \
      (const void *, uint64_t, torch_handle))                                                      \
    O(void, _ZN5torch8autograd4impl12bump_versionERKN2at6TensorE, (torch_handle))                  \
    O(bool, _ZN2at4impl27torch_function_mode_enabledEv, (void))                                    \
    O(bool, _ZN2at12hasCallbacksEv, (void))                                                        \
    R(uint64_t, aoti_torch_abi_version, (void))                                                    \
    R(torch_error, aoti_torch_library_init_fragment,                                               \
      (const char *, const char *, uint32_t, torch_library_handle *))                              \
    R(torch_error, aoti_torch_library_init_impl,                                                   \
      (const char *, const char *, const char *, uint32_t, torch_library_handle *))                \
    R(torch_error, aoti_torch_library_def, (torch_library_handle, const char *))                   \
    R(torch_error, torch_library_impl,                                                             \
      (torch_library_handle, const char *, torch_kernel, uint64_t))                                \
    R(torch_error, aoti_torch_delete_library_object, (torch_library_handle))                       \
    O(torch_error, torch_library_def_with_tags,                                                    \
      (torch_library_handle, const char *, const int32_t *, int32_t))                              \
    O(int32_t, torch_tag_pt2_compliant_tag, (void))                                                \
    R(torch_error, torch_call_dispatcher, (const char *, const char *, torch_ivalue *, uint64_t))  \
    R(torch_error, aoti_torch_new_tensor_handle, (torch_handle, torch_handle *))                   \
    R(torch_error, aoti_torch_get_dim, (torch_handle, int64_t *))                                  \
    R(torch_error, aoti_torch_get_sizes, (torch_handle, int64_t **))                               \
    R(torch_error, aoti_torch_get_strides, (torch_handle, int64_t **))                             \
    R(torch_error, aoti_torch_get_storage_offset, (torch_handle, int64_t *))                       \
    R(torch_error, aoti_torch_get_dtype, (torch_handle, int32_t *))                                \
    R(torch_error, aoti_torch_get_layout, (torch_handle, int32_t *))                               \
    R(torch_error, aoti_torch_get_device_type, (torch_handle, int32_t *))                          \
    R(torch_error, aoti_torch_get_device_index, (torch_handle, int32_t *))                         \
    R(torch_error, aoti_torch_is_defined, (torch_handle, bool *))                                  \
    R(torch_error, aoti_torch_item_float64, (torch_handle, double *))                              \
    O(torch_error, aoti_torch_aten_fill__Scalar, (torch_handle, double))                           \
    R(torch_error, aoti_torch_copy_, (torch_handle, torch_handle, int32_t))                        \
    R(torch_error, torch_new_list_reserve_size, (size_t, torch_list_handle *))                     \
    R(torch_error, torch_list_size, (torch_list_handle, size_t *))                                 \
    R(torch_error, torch_list_get_item, (torch_list_handle, size_t, torch_ivalue *))               \
    R(torch_error, torch_list_push_back, (torch_list_handle, torch_ivalue))                        \
    R(torch_error, torch_delete_list, (torch_list_handle))                                         \
    R(torch_error, torch_new_string_handle, (const char *, size_t, torch_string_handle *))         \
    R(torch_error, torch_string_c_str, (torch_string_handle, const char **))                       \
    O(torch_error, torch_string_length, (torch_string_handle, size_t *))                           \
    R(torch_error, torch_delete_string, (torch_string_handle))                                     \
    O(torch_error, torch_new_stable_ivalue, (torch_ivalue **))                                     \
    O(torch_error, torch_delete_stable_ivalue, (torch_ivalue *))                                   \
    R(void, aoti_torch_check, (bool, const char *, const char *, uint32_t, const char *))          \
    O(const char *, torch_exception_get_what_without_backtrace, (void))                            \
    R(void, aoti_torch_grad_mode_set_enabled, (bool))                                              \
    R(torch_error, torch_parallel_for, (int64_t, int64_t, int64_t, torch_body, void *))            \
    R(int32_t, aoti_torch_dtype_float16, (void))                                                   \
    R(int32_t, aoti_torch_dtype_bfloat16, (void))                                                  \
    R(int32_t, aoti_torch_dtype_float32, (void))                                                   \
    R(int32_t, aoti_torch_dtype_float64, (void))                                                   \
    R(int32_t, aoti_torch_dtype_int8, (void))                                                      \
    R(int32_t, aoti_torch_dtype_int16, (void))                                                     \
    R(int32_t, aoti_torch_dtype_int32, (void))                                                     \
    R(int32_t, aoti_torch_dtype_int64, (void))                                                     \
    R(int32_t, aoti_torch_dtype_uint8, (void))                                                     \
    R(int32_t, aoti_torch_dtype_bool, (void))                                                      \
    R(int32_t, aoti_torch_dtype_complex64, (void))                                                 \
    R(int32_t, aoti_torch_dtype_complex128, (void))                                                \
    R(int32_t, aoti_torch_device_type_cpu, (void))                                                 \
    R(int32_t, aoti_torch_device_type_cuda, (void))                                                \
    R(int32_t, aoti_torch_device_type_meta, (void))                                                \
    R(int32_t, aoti_torch_layout_strided, (void))                                                  \
    O(torch_error, aoti_torch_get_current_cuda_stream, (int32_t, void **))                         \
    /* C++ operator new and delete: optionals' boxes below 2.13 */                                 \
    R(void *, _Znwm, (size_t))                                                                     \
    R(void, _ZdlPv, (void *))                                                                      \
    /* An operator without arguments, for what its call can be made to throw. */                   \
    O(bool, _ZN2at4_ops19is_vulkan_available4callEv, (void))

#define TORCH_DECLARE(result, name, parameters) result(*name) parameters;
typedef struct torch_shim {
    TORCH_SHIM(TORCH_DECLARE, TORCH_DECLARE)
} torch_shim;
#undef TORCH_DECLARE

/* Filled once by wick_torch_init, read-only afterwards. */
extern torch_shim shim;

/* Fills the table from the libraries in the process and loads none. NULL when all required
 * functions are there, else the name of one that is not, or "libtorch_cpu.so" when there is no
 * torch at all. */
const char *torch_shim_load(void);
/* A symbol of torch that is not a function of the table (a variable, or a function of
 * libtorch_python); or NULL. */
void *torch_shim_symbol(const char *name);

#endif /* WICK_SHIM_H */
