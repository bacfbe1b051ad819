/// Exports the entry points that Envoy looks for in a VM. A macro, because they must be defined in the library that Envoy
/// loads, while `unsafe` stays in this crate.
#[macro_export]
macro_rules! wasm_module {
    ($vm:ty) => {
        const _: () = {
            use ::std::cell::RefCell;
            use $crate::wasm::{Vm, host};

            ::std::thread_local! {
                static VM: RefCell<$vm> = RefCell::default();
            }

            fn with<R>(work: impl FnOnce(&mut $vm) -> R) -> R {
                // Envoy calls a VM again only when the call before has returned.
                VM.with(|vm| work(&mut vm.borrow_mut()))
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_abi_version_0_2_1() {}

            #[unsafe(export_name = "malloc")]
            extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
                host::allocate(size)
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_context_create(context: u32, root: u32) {
                with(|vm| if root == 0 { Vm::new_root(vm, context) } else { Vm::new_stream(vm, context, root) });
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_vm_start(_root: u32, _size: usize) -> u32 {
                1
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_configure(root: u32, size: usize) -> u32 {
                let config = host::configuration(size).unwrap_or_default();
                u32::from(with(|vm| Vm::configure(vm, root, &config)))
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_tick(root: u32) {
                with(|vm| Vm::tick(vm, root));
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_request_headers(stream: u32, _count: u32, _is_last: u32) -> u32 {
                with(|vm| Vm::request_headers(vm, stream)).code()
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_request_body(stream: u32, _size: usize, _is_last: u32) -> u32 {
                with(|vm| Vm::request_body(vm, stream)).code()
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_request_trailers(stream: u32, _count: u32) -> u32 {
                with(|vm| Vm::request_trailers(vm, stream)).code()
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_response_headers(stream: u32, _count: u32, _is_last: u32) -> u32 {
                with(|vm| Vm::response_headers(vm, stream)).code()
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_http_call_response(
                root: u32,
                token: u32,
                headers: u32,
                _body: usize,
                _trailers: u32,
            ) {
                with(|vm| Vm::callout_done(vm, root, token, headers > 0));
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_log(stream: u32) {
                with(|vm| Vm::complete(vm, stream));
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_delete(context: u32) {
                with(|vm| Vm::delete(vm, context));
            }
        };
    };
}
