package setup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	sigsyaml "sigs.k8s.io/yaml"
)

// FieldManager owns the fields that this tool sets.
const FieldManager = "kubectl-kca"

const (
	// manifestLimit is ten times Kyverno's own manifest.
	manifestLimit = 64 << 20
	downloadLimit = 2 * time.Minute
)

// Manifest reads the objects of a YAML file with one or more documents, from a path or an
// http(s) URL.
func Manifest(ctx context.Context, from string) ([]*unstructured.Unstructured, error) {
	data, err := fetch(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("reading manifest %s: %w", from, err)
	}
	var objects []*unstructured.Unstructured
	for r := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("splitting manifest %s: %w", from, err)
		}
		found, err := decode(doc)
		if err != nil {
			return nil, fmt.Errorf("decoding manifest %s: %w", from, err)
		}
		objects = append(objects, found...)
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("reading manifest %s: expected Kubernetes objects, saw none; give the file that Kyverno publishes as install.yaml", from)
	}
	return objects, nil
}

func fetch(ctx context.Context, from string) (data []byte, err error) {
	var source io.ReadCloser
	if strings.HasPrefix(from, "https://") || strings.HasPrefix(from, "http://") {
		ctx, cancel := context.WithTimeout(ctx, downloadLimit)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
		if err != nil {
			return nil, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		source = answer.Body
		if answer.StatusCode != http.StatusOK {
			return nil, errors.Join(fmt.Errorf("expected status 200, saw %s; check the address", answer.Status), source.Close())
		}
	} else if source, err = os.Open(from); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	data, err = io.ReadAll(io.LimitReader(source, manifestLimit+1))
	if err == nil && len(data) > manifestLimit {
		err = fmt.Errorf("expected at most %d MiB, saw more", manifestLimit>>20)
	}
	return data, err
}

// decode makes objects of one YAML document. A document without content holds none.
func decode(doc []byte) ([]*unstructured.Unstructured, error) {
	content := map[string]any{}
	if err := sigsyaml.Unmarshal(doc, &content); err != nil {
		return nil, err
	}
	if len(content) == 0 {
		return nil, nil
	}
	object := &unstructured.Unstructured{Object: content}
	if object.GetKind() == "" || object.GetAPIVersion() == "" || (object.GetName() == "" && !object.IsList()) {
		return nil, fmt.Errorf("expected apiVersion, kind and metadata.name, saw %q, %q and %q", object.GetAPIVersion(), object.GetKind(), object.GetName())
	}
	if !object.IsList() {
		return []*unstructured.Unstructured{object}, nil
	}
	var items []*unstructured.Unstructured
	err := object.EachListItem(func(item runtime.Object) error {
		one, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("expected objects in the list, saw %T", item)
		}
		items = append(items, one)
		return nil
	})
	return items, err
}

// Mapper finds the resource of a kind, and forgets what it knows when a kind is new.
type Mapper interface {
	meta.RESTMapper
	Reset()
}

// Apply server-side-applies the objects: namespaces and kinds first, the rest when the new kinds
// are served. It never takes a field from another manager. progress is told of each object.
func Apply(ctx context.Context, client dynamic.Interface, mapper Mapper, objects []*unstructured.Unstructured, progress func(done, all int, what string)) error {
	ordered := slices.Clone(objects)
	slices.SortStableFunc(ordered, func(a, b *unstructured.Unstructured) int { return order(a) - order(b) })
	for i, object := range ordered {
		if i > 0 && order(object) > order(ordered[i-1]) {
			mapper.Reset()
		}
		what := strings.ToLower(object.GetKind()) + " " + object.GetName()
		resource, err := resourceOf(ctx, client, mapper, object)
		if err != nil {
			return fmt.Errorf("applying %s: %w", what, err)
		}
		object.SetManagedFields(nil)
		_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: FieldManager})
		if apierrors.IsConflict(err) {
			return fmt.Errorf("applying %s: expected nobody else to manage it, saw: %w; Kyverno seems to be installed already: leave out --install-kyverno", what, err)
		}
		if err != nil {
			return fmt.Errorf("applying %s: %w", what, err)
		}
		progress(i+1, len(ordered), what)
	}
	return nil
}

// order puts an object in front of those that need it.
func order(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	case "ServiceAccount", "ConfigMap", "Secret", "ClusterRole", "Role":
		return 2
	default:
		return 3
	}
}

// resourceOf finds the client for an object. A kind that was defined a moment ago may not be
// served yet, so it waits a little for one that is unknown.
func resourceOf(ctx context.Context, client dynamic.Interface, mapper Mapper, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	var mapping *meta.RESTMapping
	err := wait.PollUntilContextTimeout(ctx, time.Second, 30*time.Second, true, func(context.Context) (bool, error) {
		var err error
		mapping, err = mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			mapper.Reset()
			return false, nil
		}
		return err == nil, err
	})
	if err != nil && ctx.Err() == nil && mapping == nil && wait.Interrupted(err) {
		return nil, fmt.Errorf("expected the cluster to serve kind %s of %s, saw none; the manifest may lack its definition", kind.Kind, kind.GroupVersion())
	}
	if err != nil {
		return nil, fmt.Errorf("looking up kind %s: %w", kind.Kind, err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return client.Resource(mapping.Resource), nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return client.Resource(mapping.Resource).Namespace(namespace), nil
}
