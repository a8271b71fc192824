package drill

import "github.com/go-json-experiment/json/jsontext"

// StateSample is one look at the process state letter of /proc/PID/stat.
type StateSample struct {
	AtUS  int64  `json:"at_us"`
	State string `json:"state"`
}

// FreezeFact is one freeze from the first request to the proven resume. Times are microseconds
// since the act began, on the CLI's monotonic clock. StoppedAt is when the frozen event arrived, so
// never earlier than the stop; ResumedAt is AskedUS plus the agent's FrozenMS, so never later than
// the resume: what lies between the two was frozen for certain.
type FreezeFact struct {
	Mode          string        `json:"mode"` // pod or local
	Identity      Process       `json:"identity"`
	AskedUS       int64         `json:"asked_us"`
	StoppedAt     int64         `json:"stopped_at"`
	ResumedAt     int64         `json:"resumed_at"`
	ResumeAskedUS *int64        `json:"resume_asked_us"` // null when the timer did it
	ResumedSeenUS int64         `json:"resumed_seen_us"` // when the resumed event arrived
	FrozenMS      int64         `json:"frozen_ms"`       // on the agent's CLOCK_BOOTTIME
	ResumedBy     string        `json:"resumed_by"`
	WatchdogReady bool          `json:"watchdog_ready"`
	Capabilities  string        `json:"capabilities"` // the freezer's effective set, hexadecimal
	States        []StateSample `json:"states"`
}

// Witness holds the API server's own admission counters for our hook, where they may be read.
type Witness struct {
	Available bool               `json:"available"`
	Why       string             `json:"why"` // why not, when not available
	Before    map[string]float64 `json:"before"`
	After     map[string]float64 `json:"after"`
}

// Phases holds one registration at three moments.
type Phases struct {
	Before Registration `json:"before"`
	During Registration `json:"during"`
	After  Registration `json:"after"`
}

// During holds the three requests that were sent at the same time while the process was frozen.
type During struct {
	Good    Sample `json:"good"`
	Bad     Sample `json:"bad"`
	Control Sample `json:"control"`
}

// Denials holds the first denial of a row and all of the row.
type Denials struct {
	Bad Sample   `json:"bad"`
	All []Sample `json:"all"`
}

// ContainerPair is the admission container before the freeze and after the settle time.
type ContainerPair struct {
	Before Container `json:"before"`
	After  Container `json:"after"`
}

// Act1Facts are the facts of 01.json.
type Act1Facts struct {
	Scope      Scope      `json:"scope"`
	VM         VM         `json:"vm"`
	Inspection Inspection `json:"inspection"`
}

// Act2Facts are the facts of 02.json.
type Act2Facts struct {
	Policy         jsontext.Value `json:"policy"` // the live object without managedFields
	Webhook        Registration   `json:"webhook"`
	Canary         []Sample       `json:"canary"`
	RegistrationMS int64          `json:"registration_ms"`
}

// Act3Facts are the facts of 03.json.
type Act3Facts struct {
	Good     Sample   `json:"good"`
	Bad      Sample   `json:"bad"`
	Existing Existing `json:"existing"`
}

// Act4Facts are the facts of 04.json: a survey without any signal.
type Act4Facts struct {
	Plan         FreezePlan   `json:"plan"`
	Target       Process      `json:"target"`
	TargetState  string       `json:"target_state"`
	Container    Container    `json:"container"`
	Deployment   ObjectRef    `json:"deployment"`
	Backend      Backend      `json:"backend"`
	Registration Registration `json:"registration"`
	Budget       Budget       `json:"budget"`
	AlsoAffected []Hook       `json:"also_affected"`
	SignalSent   bool         `json:"signal_sent"`
	Capabilities string       `json:"capabilities"` // "none", or the effective set in hexadecimal
	Mode         string       `json:"mode"`
}

// Act5Facts are the facts of 05.json: frozen under Fail.
type Act5Facts struct {
	Registration Phases        `json:"registration"`
	Freeze       FreezeFact    `json:"freeze"`
	During       During        `json:"during"`
	After        Denials       `json:"after"`
	Existing     Existing      `json:"existing"`
	Container    ContainerPair `json:"container"`
	Witness      Witness       `json:"witness"`
}

// Act6Facts are the facts of 06.json: frozen under Ignore.
type Act6Facts struct {
	Policy       jsontext.Value `json:"policy"`
	Registration Phases         `json:"registration"`
	Before       Denials        `json:"before"`
	Freeze       FreezeFact     `json:"freeze"`
	During       During         `json:"during"`
	After        Denials        `json:"after"`
	Existing     Existing       `json:"existing"`
	Container    ContainerPair  `json:"container"`
	Witness      Witness        `json:"witness"`
}

// PolicyState is the part of the live policy that act 7 re-reads.
type PolicyState struct {
	UID           string `json:"uid"`
	FailurePolicy string `json:"failure_policy"`
}

// Act7Facts are the facts of 07.json: healthy again, under Ignore.
type Act7Facts struct {
	Recovery     Recovery     `json:"recovery"`
	Bad          Sample       `json:"bad"`
	Existing     Existing     `json:"existing"`
	Policy       PolicyState  `json:"policy"`
	Registration Registration `json:"registration"`
}

// Act8Facts are the facts of 08.json.
type Act8Facts struct {
	Report Report            `json:"report"`
	Links  map[string]string `json:"links"` // "05.json" → digest, likewise 06 and 07
}
