package drill

// Class says what one answer of the API server means for the drill (facts.md B1).
type Class string

// The classes. Only explicit-deny, call-timeout, allowed-fast and allowed-slow prove anything.
const (
	ClientError      Class = "client-error"
	APIServerTimeout Class = "apiserver-timeout"
	OtherHook        Class = "other-hook"
	CallTimeout      Class = "call-timeout"
	CallError        Class = "call-error"
	ExplicitDeny     Class = "explicit-deny"
	DenyByError      Class = "deny-by-error"
	DenyUnknown      Class = "deny-unknown"
	SetupError       Class = "setup-error"
	Unrelated        Class = "unrelated"
	AllowedFast      Class = "allowed-fast"
	AllowedSlow      Class = "allowed-slow"
	AllowedOdd       Class = "allowed-odd" // neither fast nor about the hook's timeout
)
