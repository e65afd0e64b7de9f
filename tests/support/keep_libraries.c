/* Linked into programs built with AddressSanitizer: libraries stay loaded to the end, so that LeakSanitizer can name
 * the plug-ins of Open MPI, which unloads them, and lsan.supp can suppress what they keep. */
int dlclose(void *handle);

int dlclose(void *handle)
{
    (void)handle;
    return 0;
}
