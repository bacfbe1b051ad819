use envoy_types::pb::envoy::config::core::v3::{
    AsyncDataSource, BackoffStrategy, DataSource, async_data_source, data_source,
};
use envoy_types::pb::envoy::extensions::filters::http::wasm::v3::Wasm;
use envoy_types::pb::envoy::extensions::wasm::v3::{
    FailurePolicy, PluginConfig, ReloadConfig, VmConfig, plugin_config::Vm,
};
use portcullis_api::Settings;
use portcullis_filter_config::names;

use crate::filter_build::FilterBuild;
use crate::proto::{json_any, seconds};

/// The filter as portcullis.wasm. All chains name the same VM, so that a worker runs one for all clusters.
pub(super) fn filter(settings: &Settings, filter: FilterBuild) -> Wasm {
    let file = DataSource {
        specifier: Some(data_source::Specifier::Filename(settings.wasm_module_path.clone())),
        ..Default::default()
    };
    let vm = VmConfig {
        vm_id: names::HTTP_FILTER.to_owned(),
        runtime: "envoy.wasm.runtime.v8".to_owned(),
        code: Some(AsyncDataSource { specifier: Some(async_data_source::Specifier::Local(file)) }),
        ..Default::default()
    };
    let config = PluginConfig {
        name: names::HTTP_FILTER.to_owned(),
        configuration: Some(json_any(&filter.filter_config(settings))),
        // What is under way when a VM panics fails closed, and the next request after this time makes another VM.
        failure_policy: FailurePolicy::FailReload.into(),
        reload_config: Some(ReloadConfig {
            backoff: Some(BackoffStrategy { base_interval: Some(seconds(1)), ..Default::default() }),
        }),
        vm: Some(Vm::VmConfig(vm)),
        ..Default::default()
    };
    Wasm { config: Some(config) }
}
