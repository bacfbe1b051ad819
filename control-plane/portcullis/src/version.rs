use std::sync::LazyLock;

use portcullis_filter_config::CONFIG_VERSION;

/// Versions of Envoy that the gateway is tested with. A test holds them against testenv/scripts/versions.env.
const ENVOY: &str = "1.38 to 1.40";

/// Everything that `--version` says behind the program's name.
pub(crate) fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let commit = option_env!("PORTCULLIS_COMMIT").unwrap_or("unknown");
        format!(
            "{}\ncommit: {commit}\nfilter configuration: {CONFIG_VERSION}\nEnvoy: {ENVOY}",
            env!("CARGO_PKG_VERSION")
        )
    });
    &TEXT
}
