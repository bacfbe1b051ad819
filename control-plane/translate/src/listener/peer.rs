//! The client's certificate on its way to the filter ([`portcullis_filter_config::PeerSource`]).

use envoy_types::pb::envoy::config::core::v3::{SubstitutionFormatString, substitution_format_string::Format};
use envoy_types::pb::envoy::config::listener::v3::{Filter, filter};
use envoy_types::pb::envoy::extensions::filters::common::set_filter_state::v3::FilterStateValue;
use envoy_types::pb::envoy::extensions::filters::common::set_filter_state::v3::filter_state_value::{Key, Value};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    ForwardClientCertConfig, ForwardClientCertDetails, SetCurrentClientCertDetails,
};
use envoy_types::pb::envoy::extensions::filters::network::set_filter_state::v3::Config;
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3::FilterStateInput;
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::predicate::single_predicate::Matcher as Matches;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::predicate::{MatchType, SinglePredicate};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::{FieldMatcher, Predicate};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{MatcherList, MatcherType, OnMatch, on_match};
use envoy_types::pb::xds::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::xds::r#type::matcher::v3::{Matcher, StringMatcher};
use envoy_types::util::pack_any;
use portcullis_filter_config::names;

use crate::proto::inline_string;

/// The network filter that keeps the certificate with the connection, once the handshake is over.
pub(super) fn recorder() -> Filter {
    let on_downstream_tls_handshake = vec![
        state(names::CLIENT_CERTIFICATE, "%DOWNSTREAM_PEER_CERT%"),
        state(names::CLIENT_DIGESTS, "%DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_256%"),
    ];
    let config = Config { on_downstream_tls_handshake, ..Default::default() };
    Filter {
        name: "envoy.filters.network.set_filter_state".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(config))),
    }
}

/// A text in the connection's filter state, or nothing if the text is empty.
pub(super) fn state(key: &str, format: &str) -> FilterStateValue {
    FilterStateValue {
        key: Some(Key::ObjectKey(key.to_owned())),
        factory_key: "envoy.string".to_owned(),
        value: Some(Value::FormatString(SubstitutionFormatString {
            format: Some(Format::TextFormatSource(inline_string(format))),
            omit_empty_values: true,
            ..Default::default()
        })),
        skip_if_empty: true,
        ..Default::default()
    }
}

fn whole_chain() -> ForwardClientCertConfig {
    ForwardClientCertConfig {
        forward_client_cert_details: ForwardClientCertDetails::SanitizeSet.into(),
        set_current_client_cert_details: Some(SetCurrentClientCertDetails { chain: true, ..Default::default() }),
    }
}

/// Writes the chain into each request of a connection that presented more than one certificate: a connection's filter state
/// has room for the first one only.
pub(super) fn matcher() -> Matcher {
    let key = names::CLIENT_DIGESTS.to_owned();
    let input = extension("digests", pack_any(FilterStateInput { key, ..Default::default() }));
    let several = StringMatcher { match_pattern: Some(MatchPattern::Contains(",".to_owned())), ..Default::default() };
    let predicate = SinglePredicate { input: Some(input), matcher: Some(Matches::ValueMatch(several)) };
    let action = extension("chain", pack_any(whole_chain()));
    let matchers = vec![FieldMatcher {
        predicate: Some(Predicate { match_type: Some(MatchType::SinglePredicate(predicate)) }),
        on_match: Some(OnMatch { on_match: Some(on_match::OnMatch::Action(action)), ..Default::default() }),
    }];
    Matcher { matcher_type: Some(MatcherType::MatcherList(MatcherList { matchers })), on_no_match: None }
}

fn extension(name: &str, config: envoy_types::pb::google::protobuf::Any) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.to_owned(), typed_config: Some(config) }
}
