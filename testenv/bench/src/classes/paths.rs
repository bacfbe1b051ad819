//! Texts by which the code that uses them is known as that of a source file or library.

/// Sections with the code of one unit.
pub(super) const SECTIONS: [(&str, &str); 3] =
    [("google_malloc", "tcmalloc"), ("malloc_hook", "tcmalloc"), (".plt", "entries of libraries (.plt)")];

/// Texts of libraries that hand no paths to anything.
const LIBRARIES: [(&str, &str); 9] = [
    ("DATA: stream_id == 0", "nghttp2"),
    ("HEADERS: stream_id == 0", "nghttp2"),
    ("CONTINUATION: unexpected stream", "nghttp2"),
    ("SETTINGS: unexpected ACK", "nghttp2"),
    ("DATA: stream in half-closed(remote)", "nghttp2"),
    ("Stream was already closed or invalid", "nghttp2"),
    ("RST_STREAM: stream_id == 0", "nghttp2"),
    ("epoll_wait", "libevent"),
    ("%s: reentrant invocation.  Only one event_base_loop can run on each event_base at once.", "libevent"),
];

/// The unit that a text is of: the path of a source file of Envoy's, or the name of a library. Headers are part of any.
pub(super) fn unit(text: &str) -> Option<&str> {
    if let Some((_, library)) = LIBRARIES.iter().find(|(known, _)| *known == text) {
        return Some(library);
    }
    let path = text.strip_prefix("./").unwrap_or(text);
    let is_source = [".cc", ".c", ".cc.inc"].iter().any(|ending| path.ends_with(ending));
    let is_path = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+.-/".contains(&byte));
    match path.strip_prefix("external/").filter(|_| is_source && is_path) {
        Some(inner) => inner.split(['+', '/']).next(),
        None => Some(path).filter(|_| is_source && is_path && path.contains('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::unit;

    #[test]
    fn units_are_files_of_envoy_and_libraries() {
        for (text, wanted) in [
            ("source/common/router/router.cc", Some("source/common/router/router.cc")),
            ("./source/common/http/codec_helper.h", None),
            ("external/boringssl+/ssl/tls_record.cc", Some("boringssl")),
            ("external/boringssl+/crypto/fipsmodule/cipher/e_aes.cc.inc", Some("boringssl")),
            ("DATA: stream_id == 0", Some("nghttp2")),
            ("a text about x/y.cc", None),
            ("main.c", None),
        ] {
            assert_eq!(unit(text), wanted, "{text}");
        }
    }
}
