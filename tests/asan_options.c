/* asan_options -- lets the leak check run after NVRTC was loaded
 *
 * The sanitizer watches __tls_get_addr to learn where dynamic thread-local storage lies. For a
 * library of NVIDIA's it guesses wrongly, and dies when it looks there for pointers.
 */
const char *__asan_default_options(void);

__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "intercept_tls_get_addr=0";
}
