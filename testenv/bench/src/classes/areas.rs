//! Areas of a proxy's work, for a table that fits on a page.

/// Areas, each with parts of the names of its units; the first one that fits counts. Units that are known by their callers alone
/// belong to the callers' area.
const AREAS: [(&str, &[&str]); 13] = [
    ("TLS (BoringSSL)", &["boringssl", "source/common/tls"]),
    ("allocating and freeing memory (tcmalloc)", &["tcmalloc"]),
    ("the module", &["libportcullis", "libidle"]),
    ("dynamic modules", &["DynamicModules", "dynamic_modules"]),
    ("C library: copying, comparing, locks, system calls", &["libc.so"]),
    ("HTTP/2: nghttp2, its adapter, codec", &["nghttp2", "quiche", "http2", "codec"]),
    (
        "header maps",
        &["HeaderMap", "HeaderUtility", "header_utility", "header_parser", "StaticLookupTable", "StringMap"],
    ),
    ("buffers", &["common/buffer"]),
    ("stream information, filter state", &["StreamInfo", "stream_info"]),
    (
        "router, routes, matchers, pools, balancing",
        &["outer", "upstream", "Upstream", "conn_pool", "load_balancing", "Match"],
    ),
    (
        "connection manager, filter chain",
        &[
            "conn_manager",
            "http_connection_manager",
            "ilter_manager.cc",
            "FilterManager",
            "filter_chain",
            "common/http",
        ],
    ),
    ("event loop, timers, sockets", &["event", "Event", "network", "Network", "OsSys"]),
    ("runtime flags", &["runtime", "FlagImpl"]),
];

/// The area of a unit.
pub(super) fn of(unit: &str) -> &'static str {
    let area = AREAS.iter().find(|(_, parts)| parts.iter().any(|part| unit.contains(part)));
    area.map_or("others", |(area, _)| area)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn units_have_areas() {
        for (unit, area) in [
            ("called from boringssl", "TLS (BoringSSL)"),
            ("source/common/router/router.cc", "router, routes, matchers, pools, balancing"),
            ("source/common/http/http2/codec_impl.cc", "HTTP/2: nghttp2, its adapter, codec"),
            ("source/common/http/conn_manager_impl.cc", "connection manager, filter chain"),
            ("Envoy::Http::RequestHeaderMapImpl", "header maps"),
            ("unknown", "others"),
        ] {
            assert_eq!(of(unit), area, "{unit}");
        }
    }
}
