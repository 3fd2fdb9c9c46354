//! A policy as a waPC guest.
#[link(wasm_import_module = "wapc")]
extern "C" {
    #[link_name = "__guest_request"]
    fn guest_request(operation: *mut u8, payload: *mut u8);
    #[link_name = "__guest_response"]
    fn guest_response(at: *const u8, size: usize);
    #[link_name = "__guest_error"]
    fn guest_error(at: *const u8, size: usize);
}

#[no_mangle]
pub extern "C" fn wapc_init() {}

#[no_mangle]
pub extern "C" fn __guest_call(operation_size: usize, size: usize) -> i32 {
    let (mut operation, mut payload) = (vec![0; operation_size], vec![0; size]);
    unsafe { guest_request(operation.as_mut_ptr(), payload.as_mut_ptr()) };
    let text = |bytes| String::from_utf8(bytes).expect("the host gives UTF-8");
    let (operation, payload) = (text(operation), text(payload));
    let answer = match operation.as_str() {
        "protocol_version" => Some("\"v1\"".to_string()),
        "validate" => Some(crate::validate(&payload)),
        "validate_settings" => Some(crate::check_settings(&payload)),
        _ => None,
    };
    match answer {
        Some(answer) => {
            unsafe { guest_response(answer.as_ptr(), answer.len()) };
            1
        }
        None => {
            let why = format!("no operation {operation}");
            unsafe { guest_error(why.as_ptr(), why.len()) };
            0
        }
    }
}
