//! An Envoy that forwards the certificate's user by a Lua script, as an operator may do without the filter: names and organizations
//! into headers, and a route with the front-proxy certificate that only the script opens.

use serde_json::{Value, json};

/// The filter's name, which is also the namespace of its metadata.
const FILTER: &str = "envoy.filters.http.lua";

const SCRIPT: &str = r#"
function envoy_on_request(handle)
  local headers = handle:headers()
  headers:remove("x-remote-user")
  headers:remove("x-remote-group")
  local info = handle:streamInfo()
  local tls = info:downstreamSslConnection()
  local subject = tls and tls:parsedSubjectPeerCertificate()
  if subject then
    local name = subject:commonName()
    if name == "" then
      handle:respond({[":status"] = "400"}, "the certificate has no common name")
      return
    end
    info:dynamicMetadata():set("envoy.filters.http.lua", "authenticated-host", info:requestedServerName())
    headers:add("x-remote-user", name)
    for _, organization in ipairs(subject:organizationName()) do
      if organization ~= "" then
        headers:add("x-remote-group", organization)
      end
    end
  end
  headers:add("x-envoy-upstream-rq-timeout-ms", "86400000")
  headers:add("x-envoy-upstream-rq-per-try-timeout-ms", "86400000")
end
"#;

/// The filter in a listener.
pub(crate) fn filter() -> Value {
    json!({
        "name": FILTER,
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
            "default_source_code": {"inline_string": SCRIPT},
        },
    })
}

/// A route that the script opens, in front of one for clients without a certificate.
pub(crate) fn routes(route: &Value, host: &str) -> Value {
    let authenticated = json!({
        "filter": FILTER,
        "path": [{"key": "authenticated-host"}],
        "value": {"string_match": {"exact": host}},
    });
    let mut opened = route.clone();
    if let Some(fields) = opened.as_object_mut() {
        fields.insert("match".to_owned(), json!({"prefix": "/", "dynamic_metadata": [authenticated]}));
    }
    let undecided = json!({"match": {"prefix": "/"}, "direct_response": {"status": 503}});
    json!({
        "name": "lua",
        "virtual_hosts": [{"name": "lua", "domains": ["*"], "routes": [opened, undecided]}],
    })
}
