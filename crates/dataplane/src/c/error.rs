//! Error of the last call, and texts from C.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// Records the reason of a failure.
pub(super) fn fail(why: impl std::fmt::Display) {
    let text = CString::new(why.to_string().replace('\0', "?")).unwrap_or_default();
    ERROR.with(|error| *error.borrow_mut() = text);
}

/// Reason of the last failure on this thread. Valid until the next one.
pub(super) fn last() -> *const c_char {
    ERROR.with(|error| error.borrow().as_ptr())
}

/// Reads a text from C. Fails and returns `None` if it is not UTF-8.
///
/// # Safety
/// `text` is null or ends with a zero byte.
pub(super) unsafe fn text<'a>(text: *const c_char, what: &str) -> Option<&'a str> {
    if text.is_null() {
        fail(format_args!("{what} is null"));
        return None;
    }
    // SAFETY: not null; the caller guarantees for the end.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    if text.is_err() {
        fail(format_args!("{what} is not UTF-8"));
    }
    text.ok()
}
